"""What would an all-knowing tool have reported? The journal's numbers in the shape of a tool's report.

From *actual* writes, over the generation requests that were answered whole: TTFT is arrival to the first
chunk with a token, latency arrival to the last one, TPOT (latency - TTFT) / (tokens - 1), ITL the gap between
two chunks with tokens. Duration is first arrival to last end. A client's own numbers are a little larger:
its interval contains the server's. Left out: other definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.requests import actual_writes, generation_rows
from loadproof.reported import Distribution, Reported

if TYPE_CHECKING:
    from loadproof.journal import Journal

DEFINITIONS = {
    "ttft_s": "arrival to first token", "itl_s": "between two chunks", "tpot_s": "(latency - TTFT) / (n - 1)",
    "latency_s": "arrival to last token", "duration_s": "first arrival to last end", "failed": "not answered whole",
    "request_rate_per_s": "completed / duration", "completed": "answered whole", "input_tokens": "as in usage",
    "output_tokens": "written",
}  # fmt: skip


def truth(journal: Journal) -> Reported:
    """Return the journal's own numbers."""
    rows = generation_rows(journal)
    whole = np.array([how == "complete" for how in rows.table["how_ended"].to_pylist()], dtype=bool)
    arrival, done = rows.int_column("arrival_ns"), rows.int_column("done_ns")
    actual, offsets = actual_writes(rows)
    tokens, _ = rows.list_column("chunk_tokens")
    ttft, tpot, latency, gaps = [], [], [], []
    for i in np.flatnonzero(whole):
        chunk = slice(offsets[i], offsets[i + 1])
        times = actual[chunk][tokens[chunk] > 0]
        produced = int(tokens[chunk].sum())
        latency.append(times[-1] - arrival[i])
        if len(times) == 1 < produced:  # not streamed: there is no first token to see
            continue
        ttft.append(times[0] - arrival[i])
        gaps.append(np.diff(times))
        if produced > 1:
            tpot.append((times[-1] - times[0]) / (produced - 1))
    seconds = float(done[whole].max() - arrival.min()) / 1e9 if whole.any() else None
    return Reported(
        completed=int(whole.sum()),
        failed=int((~whole).sum()),
        duration_s=seconds,
        request_rate_per_s=int(whole.sum()) / seconds if seconds else None,
        ttft_s=_distribution(ttft),
        itl_s=_distribution(np.concatenate(gaps) if gaps else []),
        tpot_s=_distribution(tpot),
        latency_s=_distribution(latency),
        input_tokens=int(rows.int_column("usage_prompt_tokens")[whole].sum()),
        output_tokens=int(rows.int_column("output_tokens")[whole].sum()),
    )


def _distribution(nanoseconds: object) -> Distribution | None:
    values = np.asarray(nanoseconds, dtype=np.float64) / 1e9
    if len(values) == 0:
        return None
    p50, p90, p99 = np.percentile(values, [50, 90, 99]).tolist()
    return Distribution(mean=float(values.mean()), p50=p50, p90=p90, p99=p99)
