# `nix flake check`: the unit tests, in an environment of the wheels that pdm.lock names for tests.
{
  git,
  loadproof-wheel,
  stdenvNoCC,
  wheel-environment,
}:
let
  environment = wheel-environment {
    pname = "loadproof-tests";
    version = "1";
    lists = [
      ./loadproof-wheels.json
      ./loadproof-test-wheels.json
    ];
    # The plugin's entry point, and what a test starts as a process of its own.
    extra = [ "${loadproof-wheel}/loadproof-${loadproof-wheel.version}-py3-none-any.whl" ];
  };
in
stdenvNoCC.mkDerivation {
  name = "loadproof-unit-tests";
  src = ../.;
  nativeBuildInputs = [ git ];
  buildPhase = ''
    export HOME=$TMPDIR/home
    mkdir "$HOME"
    ${environment}/libexec/${environment.pname}/bin/python -m pytest -p no:cacheprovider e2e/tests/unit
  '';
  installPhase = ''
    touch "$out"
  '';
}
