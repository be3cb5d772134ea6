# From the wheels of e2e/loadproof/tools/locks/inference-perf.txt: nixpkgs' Python packages are too old for its pins.
# With that lock change `version` and, by make_wheel_lists.py, the list: docs/maintaining-nix.md.
{ lib, wheel-environment }:
wheel-environment {
  pname = "inference-perf";
  version = "0.7.0";
  lists = [ ./inference-perf-wheels.json ];
  programs = [ "inference-perf" ];
  meta = {
    description = "Load generator for generative inference servers";
    homepage = "https://github.com/kubernetes-sigs/inference-perf";
    license = lib.licenses.asl20;
    mainProgram = "inference-perf";
    platforms = lib.platforms.linux;
  };
}
