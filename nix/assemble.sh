#!/usr/bin/env bash
# assemble.sh OUT PYTHON WHEEL... : make an environment of PYTHON in the new folder OUT, with exactly these wheels.
# Needs uv, and no network. LOADPROOF_FIT_ENVIRONMENT, if set, is run on the folder afterwards.
set -euo pipefail

if [ "$#" -lt 3 ]; then
  echo "usage: assemble.sh OUT PYTHON WHEEL..." >&2
  exit 64
fi
out=$1 python=$2
shift 2
command -v uv >/dev/null || { echo "assemble.sh: uv is not on PATH" >&2; exit 64; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch UV_CACHE_DIR=$scratch/cache UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1 UV_OFFLINE=1 UV_NO_PROGRESS=1

# A wheel's name says what it is, so the store's hash before it has to go.
mkdir "$scratch/wheels"
for wheel; do
  name=$(basename "$wheel")
  [[ $name =~ ^[0-9a-z]{32}-(.+)$ ]] && name=${BASH_REMATCH[1]}
  ln -s "$(realpath "$wheel")" "$scratch/wheels/$name"
done

uv venv --quiet --python "$python" "$out"
uv pip install --quiet --python "$out/bin/python" --no-index --no-deps --no-build --link-mode copy --compile-bytecode \
  "$scratch"/wheels/*
uv pip check --quiet --python "$out/bin/python"
if [ -n "${LOADPROOF_FIT_ENVIRONMENT:-}" ]; then
  "$LOADPROOF_FIT_ENVIRONMENT" "$out"
fi
