"""Fail when more than a third of the timed tests ended unclear: such a run has shown too little."""

import json
import sys
from pathlib import Path

summary = json.loads(Path(sys.argv[1]).read_text())
timed, unclear = summary["timed"], summary["unclear"]
if timed == 0 or 3 * unclear > timed:
    sys.exit(f"{unclear} of {timed} timed tests ended unclear; more than a third is too many")
