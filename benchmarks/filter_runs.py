"""Runs of the real filter kernel over dense traces, every answer checked at every tick, and what they are held against.

A trace is float64[ticks, items]; queries are rows of weights with a bound each. The first value of an item is not
counted: every method needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from deadband.compiler.planning.adaptive_filter import allocate, uniform
from deadband.compiler.planning.cost_curves import GRID, QUARTERS, Curves, History, grid
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.change_curves import change_curves, quarter_counts
from deadband.runtime.kernels.cost_curves import LAST, counts
from deadband.runtime.kernels.filter_sites import set_widths
from deadband.runtime.operators.adaptive_filter import run
from deadband.runtime.operators.filter_wiring import FEW, FLOOR

__all__ = ["Queries", "Sent", "analysed", "counted", "hindsight", "offline", "rows_of", "static", "wiring_of"]

SCOPE, RATIO = 24, 1.4  # widths per item from which the best static ones are sought
ROOM = 1.0 - 2.0**-28  # of the bounds, for rounding, as the coordinator itself leaves


@dataclass(frozen=True)
class Queries:
    """SUM(weight · value) WITHIN bound, one query a row."""

    weight: csr_matrix  # float64[queries, items]
    bound: NDArray  # float64[queries], full widths

    @property
    def load(self) -> csr_matrix:
        return abs(self.weight)


@dataclass(frozen=True)
class Sent:
    """What crossed between sites and coordinator after the first values, and how often an answer was wrong."""

    data: int
    control: int
    wrong: int  # answers at ticks with the truth outside, or wider than promised

    @property
    def total(self) -> int:
        return self.data + self.control


def wiring_of(queries: Queries) -> fs.Wiring:
    """Each query is a group of one cell of one target; all have their answer from the start."""
    weight, (Q, items) = csr_matrix(queries.weight, dtype=float), queries.weight.shape
    by_item = csr_matrix(weight.T)
    edges, one, none = by_item.nnz, np.arange(Q + 1), np.zeros(1, np.uint64)
    return fs.Wiring(
        value_feature=np.zeros(1, np.int64),
        value_needs=none,
        value_start=by_item.indptr.astype(np.int64),
        value_target=by_item.indices.astype(np.int32),
        value_weight=by_item.data.copy(),
        value_load=np.abs(by_item.data),
        flag_needs=none,
        flag_start=2 * by_item.indptr.astype(np.int64),
        flag_target=np.repeat(by_item.indices, 2).astype(np.int32),
        flag_total=np.tile(np.array([fs.ROWS_TOTAL, fs.COUNT_TOTAL], np.int8), edges),
        flag_weight=np.ones(2 * edges),
        feature_start=np.array([0, 1]),
        feature_slot=np.zeros(1, np.int64),
        target_start=weight.indptr.astype(np.int64),
        target_slot=weight.indices.astype(np.int64),
        target_load=np.abs(weight.data),
        target_cell=one[:-1].astype(np.int32),
        target_group=one[:-1].astype(np.int32),
        cell_start=one.astype(np.int64),
        cell_target=one[:-1].astype(np.int32),
        cell_kind=np.full(Q, fs.SUM, np.int8),
        cell_offset=np.zeros(Q),
        cell_default=np.full(Q, np.nan),
        cell_bound=np.asarray(queries.bound, float),
        cell_percent=np.zeros(Q, np.uint8),
        group_start=one.astype(np.int64),
        group_always=np.ones(Q, np.uint8),
        cost=np.ones(items),
        floor=np.array([FLOOR * Q if Q > FEW else 0.0]),
        pad=np.zeros(items),
    )


def rows_of(trace: NDArray) -> fs.Rows:
    """Every item has a row in every tick."""
    ticks, items = trace.shape
    return fs.Rows(
        start=np.arange(ticks + 1, dtype=np.int64) * items,
        item=np.tile(np.arange(items, dtype=np.int32), ticks),
        present=np.ones(ticks * items, np.uint64),
        deleted=np.zeros(ticks * items, np.uint8),
        feature=np.ascontiguousarray(trace).reshape(-1, 1),
    )


def counted(trace: NDArray, queries: Queries, method: str, history: Curves | None = None) -> Sent:
    """One run of the kernel with one of its methods."""
    wiring = wiring_of(queries)
    state = fs.new_state(wiring, trace.shape[1], GRID)
    parts = [(0, p) for p in run(wiring, state, rows_of(trace), method, history)]
    return _sent(trace, queries, state, parts)


def static(trace: NDArray, queries: Queries, widths: NDArray) -> Sent:
    """These widths from the first tick on, told with the first values; they are never changed."""
    wiring = wiring_of(queries)
    state = fs.new_state(wiring, trace.shape[1], GRID)
    parts = [(0, p) for p in run(wiring, state, rows_of(trace[:1]), "uniform", None)]
    filters = np.flatnonzero(state.active)
    set_widths(wiring, state, filters, widths[filters] * ROOM)
    state.control[:] = 0
    parts += [(1, p) for p in run(wiring, state, rows_of(trace[1:]), "uniform", None)]
    return _sent(trace, queries, state, parts)


def _sent(trace: NDArray, queries: Queries, state: fs.State, parts: list[tuple[int, fs.Emitted]]) -> Sent:
    wrong = _wrong(trace, queries, parts) + int(state.wide.sum())
    return Sent(int(state.messages.sum() + state.arrivals.sum()), int(state.control.sum()), wrong)


def _wrong(trace: NDArray, queries: Queries, parts: list[tuple[int, fs.Emitted]]) -> int:
    """Answers in force at some tick that do not hold the truth, or are wider than promised.

    The truth is summed in floating point; what that itself may be off by is not held against an answer.
    """
    tick = np.concatenate([base + p.tick for base, p in parts])
    group = np.concatenate([p.group for _, p in parts]).astype(np.int64)
    low, high = (np.concatenate([getattr(p, name) for _, p in parts]) for name in ("low", "high"))
    ticks, number = len(trace), np.arange(len(trace))
    found = 0
    weight = csr_matrix(queries.weight)
    for q, bound in enumerate(queries.bound):
        entries = slice(weight.indptr[q], weight.indptr[q + 1])
        used, w = trace[:, weight.indices[entries]], weight.data[entries]
        truth, blur = used @ w, (len(w) + 2) * 2.0**-52 * (np.abs(used) @ np.abs(w))
        mine = np.flatnonzero(group == q)
        at = np.searchsorted(tick[mine], number, side="right") - 1
        if at[0] < 0:
            return ticks * len(queries.bound)  # no answer at the first tick
        below, above = low[mine][at], high[mine][at]
        inside = (below <= truth + blur) & (truth - blur <= above)
        found += int((~(inside & (above - below <= bound * (1.0 + 1e-11)))).sum())
    return found


# ---------------------------------------------------------------- what runs are held against


def analysed(trace: NDArray) -> History:
    """What ANALYZE STREAM would keep of a history, as filters take it."""
    ticks, items = trace.shape
    value, start = np.ascontiguousarray(trace.T).ravel(), np.arange(items + 1) * ticks
    found = change_curves(value, start, GRID)
    quarter = np.tile(np.arange(ticks) * QUARTERS // ticks, items)
    parts = quarter_counts(value, start, quarter, found.widths, QUARTERS) * (QUARTERS / ticks)
    return History(found.widths, found.counts / ticks, found.changes / ticks, parts, ticks)


def hindsight(trace: NDArray, queries: Queries) -> NDArray:
    """The best static widths for a trace that is known: the LP on curves counted on it, then on a grid around those."""
    ticks, items = trace.shape
    value, start = np.ascontiguousarray(trace.T).ravel(), np.arange(items + 1) * ticks
    changes = (np.diff(trace, axis=0) != 0).mean(axis=0)
    equal = widths = uniform(queries.load, queries.bound)
    for _ in range(2):
        around = grid(np.where(widths > 0, widths, 0.1 * equal), SCOPE, RATIO)
        rate = counts(np.zeros(0, np.int64), value, start, around, LAST) / ticks
        curves = Curves(around, rate, np.maximum(changes, rate.max(axis=1)))
        widths = allocate(curves, np.ones(items), queries.load, queries.bound)
    return widths


def offline(trace: NDArray, queries: Queries) -> int:
    """No protocol whose answers stand still between messages sends less: segments of each query's own value."""
    truths = np.ascontiguousarray(queries.weight @ trace.T)
    return max(int(_segments(truths[q], queries.bound[q])) for q in range(len(queries.bound)))


@njit(nogil=True)
def _segments(value: Any, bound: Any) -> Any:
    """Cuts of a series into the fewest parts with max - min <= bound."""
    low = high = value[0]
    found = 0
    for x in value:
        low, high = min(low, x), max(high, x)
        if high - low > bound:
            found += 1
            low = high = x
    return found
