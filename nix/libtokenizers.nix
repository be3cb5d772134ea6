# The static library that llm-d-inference-sim links.
# 1.22.1 is the version that go.mod of llm-d-inference-sim 0.6.1 asks for: both change together.
# With the version change `hash` and `cargoHash`: docs/maintaining-nix.md.
{
  lib,
  fetchFromGitHub,
  rustPlatform,
}:
rustPlatform.buildRustPackage (finalAttrs: {
  pname = "libtokenizers";
  version = "1.22.1";

  src = fetchFromGitHub {
    owner = "daulet";
    repo = "tokenizers";
    tag = "v${finalAttrs.version}";
    hash = "sha256-unGAXpD4GHWVFcXAwd0zU/u30wzH909tDcRYRPsSKwQ=";
  };
  cargoHash = "sha256-rY3YAcCbbx5CY6qu44Qz6UQhJlWVxAWdTaUSagHDn2o=";

  meta = {
    description = "Hugging Face tokenizers behind a C interface, for Go";
    homepage = "https://github.com/daulet/tokenizers";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
  };
})
