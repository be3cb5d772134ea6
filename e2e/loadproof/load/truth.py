"""What would an all-knowing tool have reported? The journal's numbers in the shape of a tool's report.

From *actual* writes, over the generation requests that were answered whole: TTFT is arrival to the first chunk with
a token, latency arrival to the last one, TPOT (latency - TTFT) / (tokens - 1), ITL the gap between two chunks with
tokens; of a reply that is not streamed only the latency. Duration is first arrival to last end. A
client's own numbers are a little larger: its interval contains the server's. Left out: other definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from loadproof.journal import COMPLETE
from loadproof.load.chunks import TIMES, TOKENS, chunk_groups, chunks_in
from loadproof.load.labels import Labels
from loadproof.load.requests import generation_rows
from loadproof.reported import Distribution, Reported

if TYPE_CHECKING:
    from loadproof.journal import Journal
    from loadproof.load.requests import Bools

DEFINITIONS = {
    "ttft_s": "arrival to first token", "itl_s": "between two chunks", "tpot_s": "(latency - TTFT) / (n - 1)",
    "latency_s": "arrival to last token", "duration_s": "first arrival to last end", "failed": "not answered whole",
    "request_rate_per_s": "completed / duration", "completed": "answered whole", "input_tokens": "as in usage",
    "output_tokens": "written",
}  # fmt: skip


COLUMNS = ("method", "path", "arrival_ns", "done_ns", "stream", "usage_prompt_tokens", "output_tokens", "how_ended",
           *TIMES, TOKENS)  # fmt: skip
"""The journal's columns that are read here."""


def truth(journal: Journal) -> Reported:
    """Return the journal's own numbers; it need not have other columns than `COLUMNS`."""
    rows = generation_rows(journal)
    whole = Labels.of(journal.table["how_ended"])[rows].equal(COMPLETE)
    arrival, done = journal.int_column("arrival_ns")[rows], journal.int_column("done_ns")[rows]
    seconds = float(done[whole].max() - arrival.min()) / 1e9 if whole.any() else None
    prompts = int(journal.int_column("usage_prompt_tokens")[rows][whole].sum())
    counted = Reported(
        completed=int(whole.sum()),
        failed=int((~whole).sum()),
        duration_s=seconds,
        request_rate_per_s=int(whole.sum()) / seconds if seconds else None,
        input_tokens=prompts if journal.metadata.counts_prompts else None,
        output_tokens=int(journal.int_column("output_tokens")[rows][whole].sum()),
    )
    answered = np.zeros(journal.table.num_rows, np.bool_)
    answered[rows] = whole
    return msgspec.structs.replace(counted, **_times(journal, answered))


def _times(journal: Journal, answered: Bools) -> dict[str, Distribution | None]:
    """Return TTFT, ITL, TPOT and latency of the rows `answered`."""
    arrival, streamed = journal.int_column("arrival_ns"), Labels.of(journal.table["stream"]).equal(True)  # noqa: FBT003 -- a value
    room = np.empty(chunks_in(journal), np.int64)
    ttft, latency, tpot, gaps = [], [], [], 0
    for group in chunk_groups(journal, tokens=True):
        owner = np.repeat(np.arange(len(group.counts)), group.counts)
        useful = (group.tokens > 0) & answered[group.rows][owner]
        times, owner, tokens = group.actual(useful), owner[useful], group.tokens[useful]
        same = owner[1:] == owner[:-1]
        first = np.flatnonzero(np.concatenate([[True], ~same])) if len(owner) else np.empty(0, np.int64)
        last = np.concatenate([first[1:], [len(owner)]])[: len(first)] - 1
        begun, stream = arrival[group.rows][owner[first]], streamed[group.rows][owner[first]]
        made = np.add.reduceat(tokens, first) if len(first) else tokens
        several = stream & (made > 1)
        # What is not streamed is one chunk: there is no first token to see, and no gap.
        ttft.append((times[first] - begun)[stream])
        latency.append(times[last] - begun)
        tpot.append((times[last] - times[first])[several] / (made[several] - 1))
        between = np.diff(times)[same]
        room[gaps : gaps + len(between)] = between
        gaps += len(between)
    return {"ttft_s": _distribution(*ttft), "itl_s": _distribution(room[:gaps]), "tpot_s": _distribution(*tpot),
            "latency_s": _distribution(*latency)}  # fmt: skip


def _distribution(*nanoseconds: np.ndarray) -> Distribution | None:
    values = nanoseconds[0] if len(nanoseconds) == 1 else np.concatenate([np.empty(0), *nanoseconds])
    if len(values) == 0:
        return None
    mean = float(values.mean())
    p50, p90, p99 = (np.percentile(values, [50, 90, 99], overwrite_input=True) / 1e9).tolist()
    return Distribution(mean=mean / 1e9, p50=p50, p90=p90, p99=p99)
