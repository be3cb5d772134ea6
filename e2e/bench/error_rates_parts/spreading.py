"""How is work that is a function of its block spread over the cores?

Blocks in processes of their own; the results come in the order of the blocks, so that a seed makes one table whatever
the number of processes. Left out: what the blocks are.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence


def spread[Block, Result](
    work: Callable[[Block], Result], blocks: Sequence[Block], processes: int
) -> Iterator[tuple[Block, Result]]:
    """Yield each block with what `work` made of it; in this process if `processes` is 1."""
    if processes <= 1:
        yield from ((block, work(block)) for block in blocks)
        return
    # spawn: a fork of a process that has threads (numpy's, Arrow's) may hang
    with multiprocessing.get_context("spawn").Pool(min(processes, max(1, len(blocks)))) as pool:
        yield from zip(blocks, pool.imap(work, blocks), strict=True)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
