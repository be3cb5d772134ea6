"""What do slots look like that are too many, too few, filled late, lost, or refilled late, in words?

From the measured numbers alone, for findings that failed; what is right is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.concurrency import above, filling_s, last_above

if TYPE_CHECKING:
    from loadproof.load.concurrency import Flight, Plateau
    from loadproof.load.waves import Refills

MOSTLY = 0.9
A_MOMENT = 0.1
KEPT = 0.85
"""Shares: of the slots that are filled in time, of the plateau, of the slots that are left and in use."""


def too_many(held: Flight, asked: int, settled_s: float) -> str:
    """Say for how long there were more in flight than asked, when, and how many starts made it so."""
    lasted, first, last, times = above(held, asked)
    made = f"{np.count_nonzero(held.levels > asked)} of {len(held.starts)} starts came while {asked} were in flight"
    if last <= settled_s:
        return f"only at the start: more than {asked} for {seconds(lasted)}, none after {seconds(last)}; {made}"
    if times == 1:
        return f"more than {asked} once, for {seconds(lasted)} from {seconds(first)} on; {made}"
    return f"more than {asked} for {seconds(lasted)} in all, from {seconds(first)} to {seconds(last)}; {made}"


def too_few(held: Flight, top: Plateau, asked: int, bound_s: float) -> str:
    """Say why there were fewer in flight than asked, as far as starts and ends tell.

    Where freed slots are used again within `bound_s`, nothing but the client's own limit keeps the others empty.
    """
    if not len(held.starts):
        return ""
    if top.ramp_s > MOSTLY * (held.starts[-1] - held.starts[0]) / 1e9 > 0:
        return f"all {len(held.starts)} requests were sent before {asked} were in flight at once"
    if top.starts and top.refill_s <= bound_s:
        return (f"client-limited: a freed slot is used again after {milliseconds(top.refill_s)}, but no more than "
                f"{held.peak} are ever in use")  # fmt: skip
    return f"a freed slot stays empty for {milliseconds(top.refill_s)}, so {asked} are never in use at once"


def never_ended(held: Flight) -> str:
    """Say how many slots are in use by requests that never ended; empty when none is."""
    if not held.never_ended:
        return ""
    one = held.never_ended == 1
    return (f"{'one slot stays' if one else f'{held.never_ended} slots stay'} in use by "
            f"{'a request' if one else 'requests'} that never ended")  # fmt: skip


def filled_late(held: Flight, top: Plateau, bound_s: float) -> str:
    """Say how the slots were filled: most at once and some late, one by one, or in groups."""
    reached = filling_s(held, top.slots)
    in_time = int(np.count_nonzero(reached <= bound_s))
    late = len(reached) - in_time
    if late <= max(1, (1 - MOSTLY) * len(reached)):
        which = "the last one" if late == 1 else f"the last {late}"
        early = seconds(float(reached[max(0, in_time - 1)]))
        most = f"{top.slots - late} of {top.slots} slots are filled after {early}"
        return f"a ramp: {most}, {which} only after {seconds(top.ramp_s)}"
    steps = np.diff(reached)
    groups = np.append(reached[:1], reached[1:][steps >= steps.mean() / 2])
    size = round(len(reached) / len(groups))
    what = "slots are filled one" if size == 1 else f"slots are filled in groups of about {size},"
    return f"a ramp: {what} every {milliseconds(float(np.median(np.diff(groups))))} over {seconds(top.ramp_s)}"


def not_held_at_first(held: Flight, top: Plateau, until_s: float) -> str:
    """Say that slots were in use for a moment and then were not."""
    first = int(held.starts[0])
    mean = held.mean(first, first + round(until_s * 1e9), top.slots)
    return (f"a ramp: in the first {seconds(until_s)} only {mean:.2f} of {top.slots} slots are in use on average, "
            f"though all were for a moment after {seconds(top.ramp_s)}")  # fmt: skip


def emptied(held: Flight, top: Plateau, refilled: Refills) -> str:
    """Say why fewer than the plateau's slots were in use: lost slots, or slow refills."""
    most, until_s = last_above(held, top)
    mean = f"{top.mean:.2f} of {top.slots} in use on average"
    kept = held.mean(top.begin_ns + round(until_s * 1e9), top.end_ns, most)
    if most <= top.slots - max(1, 0.05 * top.slots) and kept >= KEPT * most:
        moment = until_s < A_MOMENT * top.length_s
        what = f"{top.slots} are in use only for a moment" if moment else "slots are lost"
        return (f"{what}: no more than {most} after {seconds(until_s)}, for the other "
                f"{seconds(top.length_s - until_s)} ({mean})")  # fmt: skip
    median, p90 = np.quantile(refilled.waits_s, [0.5, 0.9]).tolist()
    return (f"a freed slot stays empty for {milliseconds(float(refilled.waits_s.mean()))} (median "
            f"{milliseconds(median)}, p90 {milliseconds(p90)}), {mean}")  # fmt: skip


def together(refilled: Refills) -> str:
    """Say that slots are refilled in groups, and how often."""
    return (f"slots are refilled together, in waves of {refilled.group} every {refilled.every_s:.3g} s: of "
            f"{milliseconds(float(refilled.waits_s.mean()))} that a slot stays empty, "
            f"{milliseconds(refilled.shared_s)} go by while others still end")  # fmt: skip


def seconds(value: float) -> str:
    """Return a time in seconds."""
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"


def milliseconds(value_s: float) -> str:
    """Return a time in milliseconds."""
    return f"{value_s * 1e3:.1f} ms" if value_s < 0.1 else f"{value_s * 1e3:.0f} ms"
