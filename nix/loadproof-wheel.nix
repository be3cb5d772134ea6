# This project as a wheel; the version is pyproject.toml's.
{
  lib,
  python313,
  stdenvNoCC,
}:
stdenvNoCC.mkDerivation {
  pname = "loadproof-wheel";
  inherit ((lib.importTOML ../pyproject.toml).project) version;
  src = ../.;
  nativeBuildInputs = [ (python313.withPackages (packages: [ packages.pdm-backend ])) ];
  buildPhase = ''
    python3.13 -c 'from pdm.backend import build_wheel; build_wheel("dist")'
  '';
  installPhase = ''
    mkdir "$out"
    cp dist/*.whl "$out"
  '';
}
