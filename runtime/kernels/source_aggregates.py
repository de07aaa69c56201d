"""Sums over items of one site, made there: rows of composite items, before any filter.

Law. After a tick, composite m = Σ weight · value over the slots of its members that are on, as an exact pair rounded
once; it has a row in every tick in which a member has one. A row costs its members' edges.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from deadband.runtime.kernels.filter_state import Rows

__all__ = ["with_composites"]


def with_composites(
    rows: Rows, slots: tuple[NDArray, NDArray], edges: tuple[NDArray, NDArray, NDArray], first: int
) -> Rows:
    """Rows with those of composites, numbered from `first` on, after the others of their tick; feature 0 is their sum.

    slots: feature and needed features (bits) of each value slot. edges: start per item and slot, composite, weight.
    """
    start, item, present, deleted, feature = _with_composites(
        rows.start, rows.item, rows.present, rows.deleted, rows.feature, slots[0], slots[1], *edges, first
    )
    return Rows(start, item, present, deleted, feature)


@njit(cache=True, nogil=True)
def _with_composites(
    start, item, present, deleted, feature, slot_feature, slot_needs, edge_start, edge_to, weight, first
):
    V, ticks = len(slot_feature), len(start) - 1
    composites = edge_to.max() + 1 if len(edge_to) else 0
    high, low = np.zeros(composites), np.zeros(composites)
    part = np.zeros(len(edge_to))  # what each edge adds now
    touched, is_touched = np.empty(composites, np.int64), np.zeros(composites, np.uint8)
    most = len(item)
    for r in range(len(item)):
        i = np.int64(item[r])
        if (i + 1) * V < len(edge_start):
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
                s = i * V + v
                if s + 1 >= len(edge_start):
                    break
                on = deleted[r] == 0 and slot_needs[v] & ~present[r] == 0
                x = feature[r, slot_feature[v]] if on else 0.0
                for e in range(edge_start[s], edge_start[s + 1]):
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
            new_item[n], new_present[n], new_deleted[n] = first + m, np.uint64(1), 0
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
