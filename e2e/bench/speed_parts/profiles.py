"""Where does the time of the loop's thread go, when a bar is missed?

Two samplings of the same load, one after the other: perf (kernel, interpreter and libraries, by symbol) and
py-spy (our Python, by function). Left out: numbers to compare: whoever is sampled is slower.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

SHOWN = 45
RATE = 497  # samples a second; a prime, so that nothing periodic keeps step with it
BEGIN_S = 30.0  # the first `uvx` fetches the program
MAIN_THREAD = "MainThread"

type Said = list[str]


class Sampler(Protocol):
    """Samples the main thread of `pid` while its block runs; lines go to `said` at the end."""

    __name__: str

    def __call__(self, pid: int, said: Said) -> AbstractContextManager[None]:
        """Begin."""


@contextmanager
def perf(pid: int, said: Said) -> Iterator[None]:
    """Sample the main thread of `pid` while the block runs; its symbols go to `said`."""
    if not shutil.which("perf"):
        said.append("perf: not installed (Debian package linux-perf)")
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        argv = ["perf", "record", "-q", "-F", str(RATE), "-t", str(pid), "-o", data]
        with _sampling(argv, lambda _: Path(data).exists()) as errors:
            yield
        argv = ["perf", "report", "-i", data, "--stdio", "--fields", "overhead,dso,symbol", "--percent-limit", "0.3"]
        report = subprocess.run(argv, capture_output=True, text=True, check=False)
    lines = [line for line in report.stdout.splitlines() if line.strip() and not line.startswith("#")]
    said += ["perf, the loop's thread, by symbol:", *(lines[:SHOWN] or [errors(), report.stderr])]


@contextmanager
def py_spy(pid: int, said: Said) -> Iterator[None]:
    """Sample the Python functions of `pid`'s main thread while the block runs; they go to `said`."""
    command = ["py-spy"] if shutil.which("py-spy") else ["uvx", "py-spy"] if shutil.which("uvx") else []
    if not command:
        said.append("py-spy: not installed, and no uvx to run it with")
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        argv = [*command, "record", "-p", str(pid), "-r", str(RATE), "-f", "raw", "-t", "-o", str(raw), "-d", "3600"]
        with _sampling(argv, lambda said: "Sampling" in said) as errors:
            yield
        stacks = raw.read_text().splitlines() if raw.exists() else []
    said += by_function(stacks) or [f"py-spy: {errors()}"]


@contextmanager
def _sampling(argv: list[str], begun: Callable[[str], bool]) -> Iterator[Callable[[], str]]:
    """Run a sampler that ends, and writes what it has, at SIGINT; wait until it has begun, or ended."""
    with tempfile.TemporaryFile() as log:

        def said() -> str:
            return os.pread(log.fileno(), 100_000, 0).decode(errors="replace")[-2000:]

        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as sampler:
            try:
                limit = time.monotonic() + BEGIN_S
                while sampler.poll() is None and not begun(said()) and time.monotonic() < limit:
                    time.sleep(0.05)
                yield said
            finally:
                sampler.send_signal(signal.SIGINT)
                try:
                    sampler.wait(60)
                except subprocess.TimeoutExpired:
                    sampler.kill()


def by_function(stacks: list[str]) -> list[str]:
    """Return the functions of collapsed stacks ("a;b;c 12"), by samples in them alone and by all below them."""
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if MAIN_THREAD not in frames[0]:
            continue
        names = [frame.rpartition(":")[0] or frame for frame in frames[1:]]
        own[names[-1]] += int(count)
        for name in set(names):
            below[name] += int(count)
    total = own.total()
    if not total:
        return []
    return [line for title, counts in (("in itself", own), ("with what it calls", below))
            for line in (f"py-spy, the loop's thread, {title}:", *_shares(counts, total))]  # fmt: skip


def _shares(counts: Counter[str], total: int) -> list[str]:
    return [f"{count / total:7.1%}  {name}" for name, count in counts.most_common(SHOWN)]


SAMPLERS: tuple[Sampler, ...] = (perf, py_spy)


def write(folder: Path, key: str, load: Callable[[Sampler, Said], None]) -> Path:
    """Run `load` once with each sampler and write what they say to `folder`; return the file."""
    said: Said = []
    for sampler in SAMPLERS:
        load(sampler, said)
        said.append("")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{key}.txt"
    file.write_text("\n".join(said))
    return file
