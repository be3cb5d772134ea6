# A program that makes an environment of wheels work where Nix's loader and no /usr/lib are: fit_environment.py.
# It names the shared objects and the programs that the wheels of our locks expect of a usual Linux.
{
  lib,
  python313,
  ruff,
  stdenv,
  uv,
  writeShellScriptBin,
  zlib,
}:
writeShellScriptBin "fit-environment" ''
  exec ${python313}/bin/python3.13 -I ${./fit_environment.py} \
    --library ${lib.getLib stdenv.cc.cc}/lib/libstdc++.so.6 \
    --library ${lib.getLib zlib}/lib/libz.so.1 \
    --program ${uv}/bin/uv --program ${uv}/bin/uvx --program ${ruff}/bin/ruff \
    "$@"
''
