#!/bin/sh
# The builder of a shell script: its text is the variable `text`.
# shellcheck disable=SC2154 # Nix sets `out` and the name
PATH=/usr/bin:/bin
mkdir -p "$out/bin"
printf '#!/bin/sh\n%s\n' "$text" > "$out/bin/$name"
chmod 755 "$out/bin/$name"
