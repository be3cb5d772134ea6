#!/usr/bin/env bash
# assemble.sh OUT PYTHON WHEEL... : make an environment of PYTHON in the new folder OUT, with exactly these wheels.
# Needs uv, and no network. LOADPROOF_FIT_ENVIRONMENT, if set, is run on the folder afterwards.
set -euo pipefail

refuse() {
  echo "assemble.sh: $1" >&2
  exit 64
}
[ "$#" -ge 3 ] || refuse "no wheels; usage: assemble.sh OUT PYTHON WHEEL..."
out=$1 python=$2
shift 2
[ ! -e "$out" ] || refuse "$out: is there already"
command -v uv >/dev/null || refuse "uv is not on PATH"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch UV_CACHE_DIR=$scratch/cache UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1 UV_OFFLINE=1 UV_NO_PROGRESS=1
# The store sets every file's time back; bytecode that is tied to the time would be made anew at each start.
export PYC_INVALIDATION_MODE=UNCHECKED_HASH

# A wheel's name says what it is, so the store's hash before it has to go. Wheels are installed by name and version
# from one folder: a wheel that is installed by path has that path, which differs from build to build, written down.
mkdir "$scratch/wheels"
wanted=()
for wheel; do
  name=$(basename "$wheel")
  [[ $name =~ ^[0-9a-z]{32}-(.+)$ ]] && name=${BASH_REMATCH[1]}
  [[ $name == *-*-*-*-*.whl && -f $wheel ]] || refuse "$wheel: is no wheel"
  [ ! -e "$scratch/wheels/$name" ] || refuse "$wheel: is given twice"
  ln -s "$(realpath "$wheel")" "$scratch/wheels/$name"
  IFS=- read -r project version _ <<<"$name"
  wanted+=("$project==$version")
done

uv venv --quiet --python "$python" "$out"
uv pip install --quiet --python "$out/bin/python" --no-index --find-links "$scratch/wheels" --no-deps --no-build \
  --link-mode copy --compile-bytecode "${wanted[@]}"
uv pip check --python "$out/bin/python"
if [ -n "${LOADPROOF_FIT_ENVIRONMENT:-}" ]; then
  "$LOADPROOF_FIT_ENVIRONMENT" "$out"
fi
