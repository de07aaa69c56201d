"""The published adjustment on the state of filters, component by component, so that it depends on no bundling."""

from __future__ import annotations

import numpy as np

from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.burden import adjust
from deadband.runtime.kernels.filter_bounds import load_edges, unpadded
from deadband.runtime.kernels.filter_sites import ask, widen
from deadband.runtime.kernels.filter_state import inner

__all__ = ["PERIOD", "reference"]

TICK = fs.TICK
PERIOD = 10  # ticks between two adjustments


@inner
def reference(wiring, state):
    """The published adjustment, component by component: shrinks cost nothing, each growth is a control message."""
    N, T = len(state.active), len(wiring.target_cell)
    filters, targets, loads = load_edges(wiring, state)
    start, to, load = _compressed(filters, targets, loads, N)
    room = unpadded(wiring, state)
    order = np.argsort(state.component, kind="mergesort")
    place, number, mine = np.empty(N, np.int64), np.full(T, -1, np.int64), np.empty(T, np.int64)
    first = 0
    while first < N:
        last = first
        count = edges = reached = 0
        while last < N and state.component[order[last]] == state.component[order[first]]:
            j = order[last]
            last += 1
            if state.active[j] == 1:
                place[j] = count
                count += 1
                edges += start[j + 1] - start[j]
        members = np.empty(count, np.int64)
        rows, columns, weights = np.empty(edges, np.int64), np.empty(edges, np.int64), np.empty(edges)
        at = 0
        for k in range(first, last):
            j = order[k]
            if state.active[j] == 0:
                continue
            members[place[j]] = j
            for e in range(start[j], start[j + 1]):
                if number[to[e]] < 0:
                    number[to[e]] = reached
                    mine[reached] = to[e]
                    reached += 1
                rows[at], columns[at], weights[at] = place[j], number[to[e]], load[e]
                at += 1
        if count > 1:
            _adjust(wiring, state, members, mine[:reached], rows, columns, weights, room)
        for t in range(reached):
            number[mine[t]] = -1
        first = last
    state.since[:] = 0


@inner
def _adjust(wiring, state, members, targets, rows, columns, weights, room):
    """One component: its filters, its targets, and |w| between them, numbered as there."""
    item_start, item_target, item_load = _compressed(rows, columns, weights, len(members))
    target_start, target_item, target_load = _compressed(columns, rows, weights, len(targets))
    budget, burden = room[targets], state.burden[targets]
    for t in range(len(budget)):
        budget[t] = budget[t] if np.isfinite(budget[t]) else 0.0
    width = state.width[members]
    grew = adjust(
        item_start, item_target, item_load, target_start, target_item, target_load,
        budget, width, state.since[members], wiring.cost[members], float(PERIOD), state.single[members], burden,
        state.clock[TICK],
    )  # fmt: skip
    state.burden[targets] = burden
    for k in range(len(members)):
        j = members[k]
        if width[k] == state.width[j]:
            continue
        state.control[j] += grew[k]
        if width[k] < state.width[j]:
            ask(state, j)
        widen(wiring, state, j, width[k])


@inner
def _compressed(rows, columns, weights, count):
    """Entries by row: start, column, weight."""
    start = np.zeros(count + 1, np.int64)
    for e in range(len(rows)):
        start[rows[e] + 1] += 1
    start = np.cumsum(start)
    at = start[:-1].copy()
    column, weight = np.empty(len(rows), np.int64), np.empty(len(rows))
    for e in range(len(rows)):
        k = at[rows[e]]
        column[k], weight[k] = columns[e], weights[e]
        at[rows[e]] += 1
    return start, column, weight
