"""How items change, and what filters of several widths would have sent: the numbers that ANALYZE STREAM keeps.

Law. The values of item i are value[start[i]] … value[start[i + 1] - 1], at most one a tick, in order. Its widths are
geometric, from one that nine of ten changes pass to one that next to none do, found by a first count on a wider grid.
counts[i, g] is what a filter of widths[i, g] without a predictor sends after the first value. Cost: 36 shadow filters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from deadband.runtime.kernels.cost_curves import LAST, counts

__all__ = ["ChangeCurves", "change_curves", "quarter_counts"]

SCOUTS = 24  # widths of the first count
FEW = 3  # messages in the whole history: wider filters tell nothing more
SMALL = 0.1  # the share of the changes that the narrowest filter may hold back
SAMPLE = 4096  # changes of an item that are looked at for what is small
SPAN = 1e-9  # the narrowest width, as a share of the widest, at least
TINY = 1e-290  # an item that moves by less has no scale


class ChangeCurves(NamedTuple):
    """One entry, or row, per item."""

    updates: NDArray  # int64[n], values
    changes: NDArray  # int64[n], values that differ from the one before
    square: NDArray  # float64[n], Σ change²
    absolute: NDArray  # float64[n], Σ|change|
    level: NDArray  # float64[n], the mean value, 0 where there is none
    widths: NDArray  # float64[n, G], ascending
    counts: NDArray  # int64[n, G]


def change_curves(value: NDArray, start: NDArray, points: int) -> ChangeCurves:
    """Everything in three passes over the values."""
    changes, square, absolute, level, small, reach = _moves(value, start)
    scaled = reach > TINY
    scale = np.maximum(np.abs(level), 1.0)
    high = np.where(scaled, 2.0 * reach * (1.0 + 1e-9), scale)
    low = np.where(scaled, np.maximum(1.8 * small, SPAN * high), 1e-3 * scale)
    high = np.maximum(high, 1.2 * low)
    tick = np.zeros(0, np.int64)  # only predictors look at it
    scouts = _geometric(low, high, SCOUTS)
    sent = counts(tick, value, start, scouts, LAST)
    enough = sent <= np.minimum(FEW, changes // 10)[:, None]
    enough[:, -1] = True
    high = np.maximum(scouts[np.arange(len(low)), enough.argmax(axis=1)], 1.2 * low)
    widths = _geometric(low, high, points)
    found = counts(tick, value, start, widths, LAST)
    return ChangeCurves(np.diff(start), changes, square, absolute, level, widths, found)


def quarter_counts(value: NDArray, start: NDArray, quarter: NDArray, widths: NDArray, quarters: int) -> NDArray:
    """What filters of these widths send in each part of the history, each begun anew: int64[n, quarters, G]."""
    tick = np.zeros(0, np.int64)
    found = np.zeros((len(start) - 1, quarters, widths.shape[1]), np.int64)
    item = np.repeat(np.arange(len(start) - 1), np.diff(start))
    for q in range(quarters):
        mine = np.flatnonzero(quarter == q)
        first = np.searchsorted(item[mine], np.arange(len(start))).astype(np.int64)
        found[:, q] = counts(tick, value[mine], first, widths, LAST)
    return found


def _geometric(low: NDArray, high: NDArray, points: int) -> NDArray:
    return low[:, None] * (high / low)[:, None] ** (np.arange(points) / (points - 1))


@njit(cache=True, nogil=True)
def _moves(value, start):
    """Changes, Σ change², Σ|change|, mean, a small change, and the whole reach of each item."""
    n = len(start) - 1
    changes, square, absolute = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
    level, small, reach = np.zeros(n), np.zeros(n), np.zeros(n)
    sample = np.empty(SAMPLE)
    for i in range(n):
        first, last = start[i], start[i + 1]
        if first == last:
            continue
        lowest = highest = value[first]
        for r in range(first, last):
            level[i] += (value[r] - level[i]) / (r - first + 1)
            lowest, highest = min(lowest, value[r]), max(highest, value[r])
        for r in range(first + 1, last):
            change = abs(value[r] - value[r - 1])
            if change > 0.0:
                changes[i] += 1
                square[i] += change * change
                absolute[i] += change
        reach[i] = highest - lowest
        stride = 1 + changes[i] // SAMPLE
        seen = kept = 0
        for r in range(first + 1, last):
            change = abs(value[r] - value[r - 1])
            if change > 0.0:
                if seen % stride == 0:
                    sample[kept] = change
                    kept += 1
                seen += 1
        if kept > 0:
            small[i] = np.sort(sample[:kept])[int(SMALL * kept)]
    return changes, square, absolute, level, small, reach
