# `nix develop`: the interpreters and programs that the suite needs; enter.sh gives it an environment for pdm.
# The Pythons are those that the locks in e2e/loadproof/tools/locks ask for.
{
  lib,
  curl,
  fit-environment,
  git,
  inference-perf,
  llm-d-inference-sim,
  mkShellNoCC,
  pdm,
  python313,
  ruff,
  util-linux,
  uv,
}:
mkShellNoCC {
  packages = [
    curl
    git
    inference-perf
    llm-d-inference-sim
    pdm
    python313
    ruff
    util-linux # tests hide, mount and pin by it
    uv
  ];
  LOADPROOF_FIT_ENVIRONMENT = lib.getExe fit-environment;
  LOADPROOF_INFERENCE_PERF = lib.getExe inference-perf;
  UV_PYTHON_DOWNLOADS = "never";
  shellHook = ''
    source ${./enter.sh}
  '';
}
