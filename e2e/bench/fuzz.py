"""Does any input make the absorber's readers crash, hang, or take what is no request?

One command: `python e2e/bench/fuzz.py`. A million inputs, each a function of seed and number: a third are JSON bodies,
the others bytes of a connection. The readers are compared with oracles that share nothing with them, and with
themselves when the same bytes are cut elsewhere; a share also goes through the port of a real absorber. Any
part can be repeated, or a run be continued, by seed and first number. Exit status 0: nothing was found, 1: something.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.fuzz_parts import port
from bench.fuzz_parts.compare import Disagreement, compare_body, compare_stream
from bench.fuzz_parts.inputs import MODEL, rng_of
from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.absorber.service import Announced
from loadproof.errors import Exit, LoadproofError
from loadproof.journal import read_journal

ENOUGH = 10  # disagreements, after which it ends
SAY_S = 10.0
SHORT = Profile(output_tokens=3)


class Fuzz:
    """A run over the inputs `start` to `stop` of a seed; every `share`th goes through the port, too (0: none)."""

    def __init__(self, seed: int, start: int, stop: int, *, share: int) -> None:
        self.seed, self.start, self.stop, self.share = seed, start, stop, share
        self.found: list[str] = []
        self.began = self.said = time.monotonic()

    def in_process(self) -> None:
        """Compare all inputs in this process."""
        for index in self._inputs(1):
            try:
                compare_one(self.seed, index)
            except Exception as error:  # noqa: BLE001 -- whatever is raised is a finding
                self._note(index, error)

    def _inputs(self, step: int) -> Iterator[int]:
        for index in range(self.start, self.stop, step):
            if len(self.found) >= ENOUGH:
                return
            if time.monotonic() - self.said >= SAY_S:
                self._say(index - self.start)
            yield index

    def _say(self, done: int) -> None:
        self.said = time.monotonic()
        rate = done / (self.said - self.began)
        sys.stderr.write(f"{done} of {self.stop - self.start} inputs, {rate:.0f} a second, found {len(self.found)}\n")

    def _note(self, index: int, error: Exception) -> None:
        what = str(error) if isinstance(error, Disagreement) else repr(error)
        self.say_found(f"--seed {self.seed} --start {index} --inputs 1: {what}")

    def say_found(self, what: str) -> None:
        """Note a finding, and print it at once: a run may be ended before its end."""
        self.found.append(what)
        sys.stdout.write(f"{what}\n\n")
        sys.stdout.flush()

    async def through_the_port(self) -> int:
        """Send the share to a real absorber, and compare its journal; return how many were sent."""
        self.began = self.said = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="loadproof-fuzz-") as folder:
            journal = Path(folder) / "journal"
            async with absorbing(SHORT, journal, log_dir=Path(folder), model=MODEL) as (server, process):
                rows = await asyncio.to_thread(self._send_share, server)
            if complaint := process.stderr.read_text():
                self.say_found(f"the absorber says: {complaint}")
            recorded = read_journal(journal).table["conn"].value_counts().to_pylist()
        counted = {each["values"]: each["counts"] for each in recorded}
        for conn, (index, expected) in enumerate(rows, 1):
            if counted.get(conn, 0) != expected:
                self.say_found(f"--seed {self.seed} --start {index} --inputs 1 --share 1: {counted.get(conn, 0)} rows "
                               f"in the journal instead of {expected}")  # fmt: skip
        return len(rows)

    def _send_share(self, server: Announced) -> list[tuple[int, int]]:
        rows: list[tuple[int, int]] = []
        for index in self._inputs(self.share):
            try:
                count = port.send(server, rng_of(self.seed, index))
            except Disagreement as error:
                self._note(index, error)
                break  # the journal's connections are counted from the first
            if count is not None:
                rows.append((index, count))
        return rows


def compare_one(seed: int, index: int) -> None:
    """Compare one input. Raises Disagreement."""
    rng = rng_of(seed, index)
    if index % 3 == 0:
        compare_body(rng)
    else:
        compare_stream(rng, ask_h11=index % 8 == 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many (default 1000000)")
    parser.add_argument("--start", type=int, default=0, help="the number of the first (default 0)")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument(
        "--share", type=int, default=200, help="each how-many-th goes through the port (default 200; 0: none)"
    )
    return parser


def main() -> int:
    """Run it."""
    given = _parser().parse_args()
    if min(given.inputs, given.start, given.share) < 0:
        sys.stderr.write("--inputs, --start and --share must not be negative\n")
        return Exit.USAGE
    fuzz = Fuzz(given.seed, given.start, given.start + given.inputs, share=given.share)
    fuzz.in_process()
    seconds = time.monotonic() - fuzz.began
    sent = 0
    try:
        sent = asyncio.run(fuzz.through_the_port()) if given.share and not fuzz.found else 0
    except LoadproofError as error:
        fuzz.say_found(str(error))
    sys.stdout.write(
        f"seed {given.seed}, inputs {given.start} to {fuzz.stop - 1}: {given.inputs / seconds:.0f} a second in this "
        f"process, {sent} through the port; found {len(fuzz.found)}\n"
    )
    return Exit.FAIL if fuzz.found else Exit.CLEAN


if __name__ == "__main__":
    sys.exit(main())
