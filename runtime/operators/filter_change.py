"""Queries or static tables that change while filters run: what sites and coordinator know of each other stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deadband.compiler.bind.template import QUERY
from deadband.compiler.physical import AdaptiveFilter
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.operators.adaptive_filter import State, init, rewire
from deadband.runtime.operators.filter_composites import compose
from deadband.runtime.operators.filter_wiring import Book, RunWeights

__all__ = ["change", "refresh", "sum_again"]


def refresh(state: State, weights: Sequence[RunWeights]) -> None:
    """New weights for all items (a static table was refreshed): sums anew, what was reported stays."""
    if state.book.keys is None:
        return
    state.book.rewire(weights)
    rewire(state)
    compose(state, None)
    sum_again(state)


def sum_again(state: State) -> None:
    """Sums from what is known of the filters; those that are new to their targets join at the next tick."""
    kernel.sum_anew(state.wiring, state.totals)
    kernel.touch_all(state.totals)
    _admit_later(state.totals)


def change(
    state: State, plans: list[AdaptiveFilter], constants: Sequence[dict[str, pa.Scalar]], weights: Sequence[RunWeights]
) -> bool:
    """Queries came, went or have other bounds: what is known of filters and was reported stays. True: sites must tell.

    With other bounds alone sites hear of narrower widths in the next tick. Otherwise items may be new to the queries,
    and each tells its values once.
    """
    old = state.book
    if [_asks(p) for p in plans] == [_asks(p) for p in old.plans]:
        old.plans = plans
        rewire(state)
        kernel.touch_all(state.totals)
        return False
    fresh = init(plans, constants)
    if old.keys is not None:
        fresh.book.learn(old.keys, weights)
        there = np.array([old.number[k] for k in fresh.book.number], np.int64)
        fresh.book.cost, fresh.book.rate, fresh.book.site = old.cost[there], old.rate[there], old.site[there]
        rewire(fresh)
        _carry(state, fresh)
        compose(fresh, None)
        sum_again(fresh)
    state.book, state.wiring, state.totals = fresh.book, fresh.wiring, fresh.totals
    state.rows, state.refused = fresh.rows, fresh.refused
    return True


def _asks(plan: AdaptiveFilter) -> tuple:
    """What a plan asks for, bounds apart: with equal ones the same groups come in the same order."""
    queries = plan.group.queries
    percents = [[b is not None and b.percent for b in q.promise.bounds] for q in queries]
    return [q.name for q in queries], plan.weights.query.sql("spark"), [q.literals for q in queries], percents


def _carry(state: State, fresh: State) -> None:
    """Filters by key and feature, reports by query and group."""
    old, new = state.book, fresh.book
    before, after = len(old.features), len(new.features)
    kept = [(old.features.index(f), k) for k, f in enumerate(new.features) if f in old.features]
    there = np.array([old.number[k] for k in new.number], np.int64)
    here = np.array(list(new.number.values()), np.int64)
    source = (there[:, None] * before + [a for a, _ in kept]).reshape(-1).astype(np.int64)
    target = (here[:, None] * after + [b for _, b in kept]).reshape(-1).astype(np.int64)
    for name in fs.PER_FILTER:
        getattr(fresh.totals, name)[target] = getattr(state.totals, name)[source]
    for name in ("alive", "arrivals", "changes"):
        getattr(fresh.totals, name)[here] = getattr(state.totals, name)[there]
    fresh.totals.present[here] = _moved(state.totals.present, kept)[there]
    fresh.totals.clock[fs.TICK] = state.totals.clock[fs.TICK]
    moving = np.flatnonzero(fresh.totals.dense).astype(np.int32)
    fresh.totals.moving[: len(moving)], fresh.totals.clock[fs.MOVING] = moving, len(moving)
    fresh.rows[here], fresh.refused[here] = state.rows[there], state.refused[there]
    known = {group: g for g, group in enumerate(_group_names(old))}
    for g, group in enumerate(_group_names(new)):
        if group not in known:
            continue
        a, b = old.group["first"][known[group]], new.group["first"][g]
        count = len(new.plans[new.group["plan"][g]].shape.answers)
        fresh.totals.group_alive[g] = state.totals.group_alive[known[group]]
        fresh.totals.reports[g] = state.totals.reports[known[group]]
        for ends in ("reported_low", "reported_high"):
            getattr(fresh.totals, ends)[b : b + count] = getattr(state.totals, ends)[a : a + count]


def _moved(masks: NDArray, kept: list[tuple[int, int]]) -> NDArray:
    found = np.zeros(len(masks), np.uint64)
    for a, b in kept:
        found |= ((masks >> np.uint64(a)) & np.uint64(1)) << np.uint64(b)
    return found


def _group_names(book: Book) -> list[tuple]:
    """Query and group columns of every group: what it is called across changes of the queries."""
    rows = [groups.rows.to_pylist() for groups in book.groups]
    found = []
    for p, row in zip(book.group["plan"], book.group["row"], strict=True):
        columns = rows[p][row]
        query = book.plans[p].group.queries[columns[QUERY]].name.lower()
        found.append((query, *(repr(v) for c, v in sorted(columns.items()) if c[0] == "g")))
    return found


def _admit_later(totals: fs.State) -> None:
    """Filters that are on and have no width yet share what is left over at the next tick."""
    new = np.flatnonzero((totals.active == 1) & (totals.width == 0)).astype(np.int32)
    totals.joined[: len(new)] = new
    totals.fresh[new] = 1
    totals.clock[fs.JOINED] = len(new)
