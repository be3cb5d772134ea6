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

from loadproof.load.requests import actual_writes, answered_whole, generation_rows, was_streamed
from loadproof.reported import Distribution, Reported

if TYPE_CHECKING:
    from loadproof.journal import Journal
    from loadproof.load.requests import Bools, Ints

DEFINITIONS = {
    "ttft_s": "arrival to first token", "itl_s": "between two chunks", "tpot_s": "(latency - TTFT) / (n - 1)",
    "latency_s": "arrival to last token", "duration_s": "first arrival to last end", "failed": "not answered whole",
    "request_rate_per_s": "completed / duration", "completed": "answered whole", "input_tokens": "as in usage",
    "output_tokens": "written",
}  # fmt: skip


def truth(journal: Journal) -> Reported:
    """Return the journal's own numbers."""
    rows = generation_rows(journal)
    whole = answered_whole(rows)
    arrival, done = rows.int_column("arrival_ns"), rows.int_column("done_ns")
    seconds = float(done[whole].max() - arrival.min()) / 1e9 if whole.any() else None
    prompts = int(rows.int_column("usage_prompt_tokens")[whole].sum())
    counted = Reported(
        completed=int(whole.sum()),
        failed=int((~whole).sum()),
        duration_s=seconds,
        request_rate_per_s=int(whole.sum()) / seconds if seconds else None,
        input_tokens=prompts if journal.metadata.counts_prompts else None,
        output_tokens=int(rows.int_column("output_tokens")[whole].sum()),
    )
    return msgspec.structs.replace(counted, **_times(rows, whole, arrival))


def _times(rows: Journal, whole: Bools, arrival: Ints) -> dict[str, Distribution | None]:
    """Return TTFT, ITL, TPOT and latency; columns, not a loop, because a journal may have a million rows."""
    actual, offsets = actual_writes(rows)
    tokens, _ = rows.list_column("chunk_tokens")
    owner = np.repeat(np.arange(len(whole)), np.diff(offsets))
    useful = (tokens > 0) & whole[owner]
    times, owner, tokens = actual[useful], owner[useful], tokens[useful]
    answered, first = np.unique(owner, return_index=True)
    last = np.searchsorted(owner, answered, side="right") - 1
    ttft, latency = times[first] - arrival[answered], times[last] - arrival[answered]
    produced = np.bincount(owner, weights=tokens, minlength=len(whole))[answered]
    # What is not streamed is one chunk: there is no first token to see, and no gap.
    streamed = was_streamed(rows)
    seen, several = streamed[answered], streamed[answered] & (produced > 1)
    return {
        "ttft_s": _distribution(ttft[seen]),
        "itl_s": _distribution(np.diff(times)[np.diff(owner) == 0]),
        "tpot_s": _distribution((latency - ttft)[several] / (produced[several] - 1)),
        "latency_s": _distribution(latency),
    }


def _distribution(nanoseconds: np.ndarray) -> Distribution | None:
    values = np.asarray(nanoseconds, dtype=np.float64) / 1e9
    if len(values) == 0:
        return None
    p50, p90, p99 = np.percentile(values, [50, 90, 99]).tolist()
    return Distribution(mean=float(values.mean()), p50=p50, p90=p90, p99=p99)
