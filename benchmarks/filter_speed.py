"""How long plans for very many filters take, and how many updates a second go through the filters on one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from benchmarks.filter_runs import Queries, rows_of, wiring_of
from benchmarks.table import Table
from deadband.compiler.planning.adaptive_filter import EXACT_UP_TO, allocate, random_walk, settle, uniform
from deadband.compiler.planning.cost_curves import GRID, Curves, expected, grid
from deadband.compiler.planning.emit_on_drift import OVERSHOOT
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.burden import adjust
from deadband.runtime.operators.adaptive_filter import run

__all__ = ["planning", "updates"]

MEMBERS = 10  # items of a query
AFFORDABLE = 1_000  # items up to which the linear program is solved for comparison


def _timed(work: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work(*args)
    return time.perf_counter() - started, found


def planning(sizes: tuple[int, ...]) -> list[dict]:
    """Seconds of each planner; lp: what the LP would save beyond `allocate` by prices, as a share of the messages."""
    table = Table(f"filters: seconds to plan widths, as many queries as items, {MEMBERS} items a query")
    for size in sizes:
        rng = np.random.default_rng(size)
        item = rng.integers(0, size, size * MEMBERS)
        load = csr_matrix((np.ones(len(item)), (np.repeat(np.arange(size), MEMBERS), item)), shape=(size, size))
        load.data[:] = rng.uniform(0.5, 2.0, load.nnz)
        budget, cost = 100.0 * rng.uniform(0.3, 3.0, size), np.ones(size)
        variance = np.exp(rng.normal(0, 2, size))
        equal = uniform(load, budget)
        around = grid(np.where(np.isfinite(equal), equal, 1.0))
        rate = np.minimum(variance[:, None] / (around / 2 + OVERSHOOT * np.sqrt(variance)[:, None]) ** 2, 1.0)
        curves = Curves(around, rate, np.ones(size))
        allocating, widths = _timed(allocate, curves, cost, load, budget, "dual")
        walking, _ = _timed(random_walk, variance, cost, load, budget)
        settling, _ = _timed(settle, equal, widths, curves, cost, load, budget)
        row = {"items": size, "entries": load.nnz, "allocate_s": allocating, "random_walk_s": walking}
        row |= {"settle_s": settling, "adjust_s": _adjusting(load, budget, equal, rng.poisson(3, size))}
        if size <= AFFORDABLE:
            exact_s, exact = _timed(allocate, curves, cost, load, budget, "exact")
            cost_of = [float(expected(curves, w).sum()) for w in (widths, exact)]
            row |= {"lp_s": exact_s, "gap": cost_of[0] / cost_of[1] - 1}
        else:
            row |= {"lp_s": "-", "gap": "-"}
        table.add(**row, used="prices" if load.nnz > EXACT_UP_TO else "lp")
    return table.rows


def _adjusting(load: csr_matrix, budget: NDArray, widths: NDArray, sent: NDArray) -> float:
    """Seconds of one adjustment of the reference method, compiled, targets known from the one before."""
    by_item, size = csr_matrix(load.T), len(budget)
    width, burden = np.where(np.isfinite(widths), widths, 0.0), np.zeros(size)
    wiring: tuple = (by_item.indptr.astype(np.int64), by_item.indices.astype(np.int64), by_item.data)
    wiring += (load.indptr.astype(np.int64), load.indices.astype(np.int64), load.data)
    seconds = 0.0
    for seed in range(3):
        more = (budget, width, sent.astype(np.int64), np.ones(size), 10.0, np.zeros(size, np.uint8), burden, seed)
        seconds, _ = _timed(adjust, *wiring, *more)
    return seconds


def updates(rows: int) -> list[dict]:
    """Million updates a second through the kernel, sites and coordinator in one loop, on one core."""
    table = Table(
        "filters: updates through the kernel on one core, random walks, ten items a query; sent: share of them"
    )
    for items in (1_000, 100_000):
        for filters, sparse, bound, few in (
            ("uniform", False, 1e5, 1), ("uniform", False, 300.0, 4), ("shadows", True, 1e5, 4),
            ("predictors", False, 1e5, 4), ("predictors", False, 300.0, 8),
        ):  # fmt: skip
            if rows // few // items >= 128 or filters != "predictors":  # predictors run from the 64th tick on
                table.add(items=items, filters=filters, **_through(items, rows // few, filters, sparse, bound))
    return table.rows


def _through(items: int, rows: int, filters: str, sparse: bool, bound: float) -> dict[str, Any]:
    """The first part of the trace warms up, the rest is timed: the best of two runs."""
    rng = np.random.default_rng(0)
    ticks = max(rows // items, 20) * (3 if sparse else 1)
    trace = np.cumsum(rng.normal(0, 1, (ticks, items)), axis=0)
    made = rows_of(trace)
    if sparse:  # a third of the items has a row in a tick: too few for predictors
        keep = (np.arange(ticks)[:, None] + np.arange(items)) % 3 == 0
        keep[0] = True
        start = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int64)
        at = np.flatnonzero(keep.ravel())
        made = fs.Rows(start, made.item[at], made.present[at], made.deleted[at], made.feature[at])
    weight = csr_matrix((np.ones(items), (np.arange(items) // 10, np.arange(items))))
    wiring = wiring_of(Queries(weight, np.full(items // 10, bound)))
    method, warm = "uniform" if filters == "uniform" else "adaptive", min(max(ticks // 4, 2), 70)
    best, sent, timed = 0.0, 0, int(made.start[-1] - made.start[warm])
    for _ in range(2):
        state = fs.new_state(wiring, items, GRID)
        run(wiring, state, made._replace(start=made.start[: warm + 1]), method, None)
        before = int(state.messages.sum())
        seconds, _ = _timed(run, wiring, state, made._replace(start=made.start[warm:]), method, None)
        best, sent = max(best, timed / seconds / 1e6), int(state.messages.sum()) - before
    return {"millions": best, "sent": sent / timed, "rows": timed}
