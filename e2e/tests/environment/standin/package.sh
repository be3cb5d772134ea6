#!/bin/sh
# The builder of a package: NAME=PROGRAM... become links in its bin/; without a PROGRAM, one that says so.
# shellcheck disable=SC2154 # Nix sets `out`
PATH=/usr/bin:/bin
mkdir -p "$out/bin"
for link in "$@"; do
  name=${link%%=*} program=${link#*=}
  if [ -n "$program" ]; then
    ln -s "$program" "$out/bin/$name"
  else
    printf '#!/bin/sh\necho "%s: is not on this machine, so the stand-in has none" >&2\nexit 127\n' "$name" > "$out/bin/$name"
    chmod 755 "$out/bin/$name"
  fi
done
