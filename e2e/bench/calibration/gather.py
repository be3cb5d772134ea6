"""How does one calibration run come about: a capture, an absorber, every load, and what each of them left?

One absorber and one capture for everything. What is gathered is compared afterwards, as often as one likes
(with a shift, too), without being run again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bench.calibration import packet_socket, tcpdump
from bench.calibration.agreement import Agreement, Told, of_absorber, of_metronome
from bench.calibration.clock import Bridge, sample
from bench.calibration.exchanges import Seen, exchanges
from bench.calibration.pcap import read_pcap
from bench.calibration.reassembly import conversations
from bench.calibration.scenarios import CHUNKS, PROFILE, SCENARIOS, Target
from loadproof.absorber.client import absorbing
from loadproof.absorber.service import Announced
from loadproof.errors import BrokenRun
from loadproof.journal import Journal, read_journal
from loadproof.metronome.claims import Row
from loadproof.process import clean_environment, run_to_end, tail
from loadproof.reported import CLAIMS_FILE, read_claims

CAPTURES = {"tcpdump": tcpdump.why_not, "packet-socket": packet_socket.why_not}
METRONOME = {
    "metronome, open loop at 100/s": ["--rate", "100", "--arrival", "poisson"],
    "metronome, closed loop of 8": ["--concurrency", "8"],
}
_METRONOME_REQUESTS = 300
_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Gathered:
    """Everything of one run; `names` are the requests of each scenario."""

    journal: Journal
    seen: dict[str, Seen]
    names: dict[str, list[str]]
    told: Sequence[Told]
    bridge: Bridge

    def agreements(self, shift_ns: int = 0) -> list[Agreement]:
        """Compare, with our stamps shifted by `shift_ns`."""
        found = []
        for scenario, names in self.names.items():
            found += of_absorber(scenario, names, self.seen, self.journal, shift_ns)
        for told in self.told:
            found += of_absorber(told.scenario, told.names, self.seen, self.journal, shift_ns)
            found += of_metronome(told, self.seen, shift_ns)
        return found


async def gather(folder: Path, *, capture: str, scale: float = 1.0, seed: int = 0) -> Gathered:
    """Run everything in `folder`, captured with `capture` (a key of CAPTURES).

    Raises BrokenRun when something that was started did not end as it must.
    """
    before = sample()
    async with absorbing(PROFILE, folder / "journal", log_dir=folder) as (announced, _):
        target = Target(announced.host, announced.port, announced.model, scale)
        async with _capturing(capture, announced, folder) as file:
            names = {each: await asyncio.to_thread(drive, target) for each, drive in SCENARIOS.items()}
            outs = [
                await _metronome(
                    announced, folder / f"metronome-{k}", arguments, len(target.times(_METRONOME_REQUESTS)), seed + k
                )
                for k, arguments in enumerate(METRONOME.values())
            ]
    bridge = Bridge(before, sample())
    segments = (s._replace(time_ns=bridge.monotonic_ns(s.time_ns)) for s in read_pcap(file))
    return Gathered(
        journal=read_journal(folder / "journal"),
        seen=exchanges(conversations(segments, announced.port)),
        names=names,
        told=[replace(told, scenario=scenario) for told, scenario in zip(outs, METRONOME, strict=True)],
        bridge=bridge,
    )


@asynccontextmanager
async def _capturing(capture: str, announced: Announced, folder: Path) -> AsyncIterator[Path]:
    if capture == "tcpdump":
        async with tcpdump.capturing(announced.host, announced.port, folder) as file:
            yield file
    else:
        with packet_socket.PacketSocket(announced.port) as packets:
            yield folder / "packets.pcap"
            packets.write(folder / "packets.pcap")


async def _metronome(announced: Announced, out: Path, arguments: Sequence[str], count: int, seed: int) -> Told:
    argv = [sys.executable, "-P", "-m", "loadproof.metronome", "--base-url", announced.url, "--model", announced.model,
            "--out", str(out), "--num-requests", str(count), "--prompt-tokens", "64", "--max-tokens", str(CHUNKS),
            "--seed", str(seed), *arguments]  # fmt: skip
    ended = await run_to_end(argv, log_dir=out, name="log", env=clean_environment({}), deadline_s=_DEADLINE_S)
    if ended.exit_code != 0:
        raise BrokenRun(f"the metronome {ended.says()}\n{tail(out / 'log.stderr')}")
    rows = [msgspec.json.decode(line, type=Row) for line in (out / "requests.jsonl").read_bytes().splitlines()]
    return Told("", [f"metronome-{seed}-{row.index}" for row in rows], rows, read_claims(out / CLAIMS_FILE))
