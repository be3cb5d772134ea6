#!/usr/bin/env bash
# Sourced when `nix develop` begins: which Python pdm uses, in an environment outside the project, because
# `nix develop path:.` copies all that lies in the project into the store.

# Nix exports these for builds. Here they would put the packages that pdm is made of before our own, and give every
# tool under test a hash seed that it has nowhere else.
unset PYTHONPATH PYTHONHOME PYTHONHASHSEED PYTHONNOUSERSITE DETERMINISTIC_BUILD SOURCE_DATE_EPOCH \
  _PYTHON_HOST_PLATFORM _PYTHON_SYSCONFIGDATA_NAME

loadproof_enter() {
  local python project environment
  python=$(readlink -f "$(command -v python3.13)")
  project=$(git rev-parse --show-toplevel 2>/dev/null || pwd -P)
  environment=${LOADPROOF_VENV:-}
  if [ -z "$environment" ]; then
    environment=${XDG_CACHE_HOME:-$HOME/.cache}/loadproof/nix-$(printf '%s\n' "$project" "$python" | sha256sum | cut -c -12)
  fi
  if ! [ -x "$environment/bin/python" ]; then
    rm -f "$environment"/bin/python* # broken links, if the store was cleaned; the packages stay
    python3.13 -m venv --without-pip "$environment" || return
  fi
  export PDM_PYTHON=$environment/bin/python
}
loadproof_enter
unset -f loadproof_enter
