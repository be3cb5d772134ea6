"""Fail when more than a third of the timed tests ended unclear, or none was timed: that has shown too little."""

import json
import sys
from pathlib import Path

file = Path(sys.argv[1])
if not file.is_file():
    sys.exit(f"{file}: was not written, so no test made a run")
summary = json.loads(file.read_text())
timed, unclear = summary["timed"], summary["unclear"]
if timed == 0:
    sys.exit(f"no test was timed; skipped for a missing tool: {summary['tool_missing']}")
if 3 * unclear > timed:
    sys.exit(f"{unclear} of {timed} timed tests ended unclear; more than a third is too many")
