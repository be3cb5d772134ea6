# Every formula of this folder, each with the others in reach.
pkgs:
pkgs.lib.makeScope pkgs.newScope (ours: {
  libtokenizers = ours.callPackage ./libtokenizers.nix { };
  llm-d-inference-sim = ours.callPackage ./llm-d-inference-sim.nix { };
  fit-environment = ours.callPackage ./fit-environment.nix { };
  wheel-environment = ours.callPackage ./wheel-environment.nix { };
  inference-perf = ours.callPackage ./inference-perf.nix { };
  loadproof-wheel = ours.callPackage ./loadproof-wheel.nix { };
  loadproof = ours.callPackage ./loadproof.nix { };
  unit-tests = ours.callPackage ./unit-tests.nix { };
  shell = ours.callPackage ./shell.nix { };
})
