"""Sums over items of one site, made there: rows of composite items, before any filter.

Law. After a tick, composite m = Σ weight · value over the slots of its members that are on, as an exact pair rounded
once; it has a row in every tick in which a member has one. A row costs its members' edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from deadband.runtime.kernels.filter_state import Rows

__all__ = ["Composites", "with_composites"]


class Composites(NamedTuple):
    """Which slots of which items add to which composite."""

    feature: NDArray  # int64[V], of each value slot
    needs: NDArray  # uint64[V], bits of features
    start: NDArray  # int64[items·V + 1], first edge of each slot
    composite: NDArray  # int64[edges]
    weight: NDArray  # float64[edges]
    number: NDArray  # int64[composites], as items


def with_composites(rows: Rows, composites: Composites, now: NDArray | None = None) -> Rows:
    """Rows with those of composites after the others of their tick; feature 0 is their sum.

    now: what each edge adds before the first tick; nothing, when left out.
    """
    parts = np.zeros(len(composites.weight)) if now is None else now.copy()
    found = _with_composites(
        rows.start, rows.item, rows.present, rows.deleted, rows.feature,
        composites.feature, composites.needs, composites.start, composites.composite, composites.weight,
        composites.number, parts,
    )  # fmt: skip
    return Rows._make(found)


@njit(cache=True, nogil=True)
def _with_composites(
    start, item, present, deleted, feature, slot_feature, slot_needs, edge_start, edge_to, weight, number, part
):
    V, ticks = len(slot_feature), len(start) - 1
    high, low = np.zeros(len(number)), np.zeros(len(number))
    for e in range(len(part)):
        _add(high, low, edge_to[e], part[e])
    touched, is_touched = np.empty(len(number), np.int64), np.zeros(len(number), np.uint8)
    most = len(item)
    for r in range(len(item)):
        i = np.int64(item[r])
        most += edge_start[(i + 1) * V] - edge_start[i * V]
    new_start, n = np.zeros(ticks + 1, np.int64), 0
    new_item, new_present = np.empty(most, np.int32), np.empty(most, np.uint64)
    new_deleted, new_feature = np.empty(most, np.uint8), np.zeros((most, feature.shape[1]))
    for tick in range(ticks):
        waiting = 0
        for r in range(start[tick], start[tick + 1]):
            new_item[n], new_present[n], new_deleted[n] = item[r], present[r], deleted[r]
            new_feature[n] = feature[r]
            n += 1
            i = np.int64(item[r])
            for v in range(V):
                on = deleted[r] == 0 and slot_needs[v] & ~present[r] == 0
                x = feature[r, slot_feature[v]] if on else 0.0
                for e in range(edge_start[i * V + v], edge_start[i * V + v + 1]):
                    m, now = edge_to[e], weight[e] * x
                    _add(high, low, m, now)
                    _add(high, low, m, -part[e])
                    part[e] = now
                    if is_touched[m] == 0:
                        is_touched[m] = 1
                        touched[waiting] = m
                        waiting += 1
        for m in np.sort(touched[:waiting]):
            is_touched[m] = 0
            new_item[n], new_present[n], new_deleted[n] = number[m], np.uint64(1), 0
            new_feature[n, 0] = high[m] + low[m]
            n += 1
        new_start[tick + 1] = n
    return new_start, new_item[:n].copy(), new_present[:n].copy(), new_deleted[:n].copy(), new_feature[:n].copy()


@njit(cache=True, nogil=True)
def _add(high, low, at, amount):
    a = high[at]
    s = a + amount
    b = s - a
    low[at] += (a - (s - b)) + (amount - b)
    high[at] = s
