# pname, version, lists (JSON files that make_wheel_lists.py made of our locks), programs -> a package that has
# exactly the wheels of the lists, and `extra` wheels, in an environment of its own, and the programs in bin/.
{
  lib,
  fetchPypi,
  fit-environment,
  python313,
  stdenvNoCC,
  uv,
}:
{
  pname,
  version,
  lists,
  extra ? [ ],
  programs ? [ ],
  meta ? { },
}:
let
  system = stdenvNoCC.hostPlatform.system;
  wheels = lib.concatMap (list: (lib.importJSON list).any ++ (lib.importJSON list).${system}) lists;
  fetched = map (wheel: fetchPypi (wheel // { format = "wheel"; })) wheels;
in
stdenvNoCC.mkDerivation {
  inherit pname version meta;
  nativeBuildInputs = [ uv ];
  env.LOADPROOF_FIT_ENVIRONMENT = lib.getExe fit-environment;
  # No phases: fixing up would strip and patch what the wheels' authors have linked.
  buildCommand = ''
    bash ${./assemble.sh} "$out/libexec/${pname}" ${python313}/bin/python3.13 ${toString (fetched ++ extra)}
    mkdir -p "$out/bin"
    for program in ${toString programs}; do
      ln -s "$out/libexec/${pname}/bin/$program" "$out/bin/$program"
    done
  '';
}
