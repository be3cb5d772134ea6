# This project's wheel among the wheels of pdm.lock's default group; the list is made by make_wheel_lists.py.
{
  lib,
  loadproof-wheel,
  wheel-environment,
}:
wheel-environment {
  pname = "loadproof";
  inherit (loadproof-wheel) version;
  lists = [ ./loadproof-wheels.json ];
  extra = [ "${loadproof-wheel}/loadproof-${loadproof-wheel.version}-py3-none-any.whl" ];
  programs = [ "loadproof" ];
  meta = {
    description = "Judges LLM load generators";
    license = lib.licenses.asl20;
    mainProgram = "loadproof";
    platforms = lib.platforms.linux;
  };
}
