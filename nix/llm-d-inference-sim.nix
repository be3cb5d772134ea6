# 0.6.1 is the last release without Python that links libtokenizers; its go.mod says which version of that.
# With the version change `hash`, `vendorHash` and libtokenizers.nix: docs/maintaining-nix.md.
{
  lib,
  buildGoModule,
  fetchFromGitHub,
  libtokenizers,
  pkg-config,
  zeromq,
}:
buildGoModule (finalAttrs: {
  pname = "llm-d-inference-sim";
  version = "0.6.1";

  src = fetchFromGitHub {
    owner = "llm-d";
    repo = "llm-d-inference-sim";
    tag = "v${finalAttrs.version}";
    hash = "sha256-KdA7dgdy1jGjRhrqXfkg4Z9V3SXPcKp1FnTtm+e5DSA=";
  };
  vendorHash = "sha256-MINH7J2ozTORFK/KgZvXBlwThYRISL1wlHebdZxvuvw=";

  subPackages = [ "cmd/llm-d-inference-sim" ];
  env.CGO_ENABLED = 1;
  nativeBuildInputs = [ pkg-config ];
  buildInputs = [
    libtokenizers
    zeromq
  ];
  # Its tests download models and tokenizers, and a build has no network.
  doCheck = false;

  meta = {
    description = "Simulator of a vLLM server, for tests without a GPU";
    homepage = "https://github.com/llm-d/llm-d-inference-sim";
    license = lib.licenses.asl20;
    mainProgram = "llm-d-inference-sim";
    platforms = lib.platforms.linux;
  };
})
