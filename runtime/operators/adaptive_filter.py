"""AdaptiveFilter: all PRECISION queries over one stream that use one method share one set of filters.

init(plans) -> State, step(State, closed ticks) -> (State, changes). A step may bring keys never seen: Spark runs the
weights queries for them alone, and they join the groups they belong to at their first tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.compiler.physical import AdaptiveFilter
from deadband.compiler.planning.cost_curves import GRID, Curves
from deadband.runtime.clock import Clock, coarse
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.operators.emit_on_drift import HUGE
from deadband.runtime.operators.filter_planning import plan as plan_widths
from deadband.runtime.operators.filter_wiring import Book, RunWeights, wire
from deadband.runtime.sources.batch import Batch, last_of_each

__all__ = [
    "HUGE", "METHODS", "Changes", "Counters", "State", "changes_of", "counters", "feature_bits", "features_of", "init",
    "kernel_rows", "learn", "method_of", "relevant", "rewire", "run", "step", "value_limits",
]  # fmt: skip

METHODS = {"adaptive": fs.ADAPTIVE, "reference": fs.REFERENCE, "uniform": fs.UNIFORM, "none": fs.NONE}


@dataclass
class State:
    """What outlives a step: what is numbered, how it is wired, what both ends know, rows that could not be used."""

    book: Book
    wiring: fs.Wiring
    totals: fs.State
    rows: NDArray  # int64[I], usable rows in
    refused: NDArray  # int64[I], rows whose values cannot be summed


@dataclass(frozen=True)
class Changes:
    """Reports in order of time: group numbers refer to the book's groups, cells of report r begin at start[r]."""

    time: NDArray
    group: NDArray
    diff: NDArray
    start: NDArray
    low: NDArray  # NaN: NULL
    high: NDArray


@dataclass(frozen=True)
class Counters:
    """Counted where it happened, one entry per query, in the order of plans and of queries in them."""

    updates: NDArray
    rejected: NDArray
    initial: NDArray
    messages: NDArray
    control: NDArray
    reported: NDArray
    baseline: NDArray
    violations: NDArray
    total: dict[str, int]  # shared messages once


def features_of(plans: Sequence[AdaptiveFilter]) -> list[exp.Expr]:
    """The functions of a row that the plans need, then what else sites tell of themselves in their first row."""
    own = dict.fromkeys(f for p in plans for f in p.features)
    return [*own, *_told(plans[0].shape.stream).values()]


def _told(stream: Stream) -> dict[str, exp.Expr]:
    """Message cost, change rate and site, as far as they are columns."""
    found: dict[str, exp.Expr] = {}
    for name, column in (("cost", stream.message_cost), ("rate", stream.change_rate)):
        if isinstance(column, str):
            found[name] = exp.column(column)
    if stream.source_by:
        hashed = exp.func("XXHASH64", *(exp.column(c) for c in stream.source_by), dialect="spark")
        found["site"] = exp.func("PMOD", hashed, exp.Literal.number(2**52), dialect="spark")
    return found


def init(plans: list[AdaptiveFilter], constants: Sequence[dict[str, pa.Scalar]]) -> State:
    """Nothing known yet. A global aggregate has its one group from the start, with these constant columns."""
    book = Book(plans, features_of(plans))
    book.open(constants)
    wiring = wire(book, 0.0, len(book.group))
    none = np.zeros(0, np.int64)
    return State(book, wiring, fs.new_state(wiring, 0, GRID), none, none)


def method_of(state: State) -> str:
    return state.book.plans[0].method


def learn(state: State, keys: pa.Table, first: NDArray, weights: Sequence[RunWeights]) -> NDArray:
    """The items of these keys; new ones are wired. first: features of the first row of each key, float64[keys, F]."""
    book = state.book
    wanted = list(zip(*(c.to_pylist() for c in keys.columns), strict=True)) if len(keys) else []
    fresh = [i for i, k in enumerate(wanted) if k not in book.number]
    if fresh:
        old = len(book.number)
        book.learn(keys.take(pa.array(fresh)) if len(fresh) < len(keys) else keys, weights)
        _describe(book, old, first[fresh])
        rewire(state)
    return np.array([book.number[k] for k in wanted], np.int64)


def rewire(state: State) -> None:
    """The kernel's arrays for what the book says now; what is known of the filters stays."""
    stream = state.book.plans[0].shape.stream
    state.wiring = wire(state.book, stream.lateness, len(state.book.group))
    state.totals = fs.grown(state.totals, fs.new_state(state.wiring, len(state.book.number), GRID))
    room = np.zeros(max(len(state.book.number) - len(state.rows), 0), np.int64)
    state.rows, state.refused = np.append(state.rows, room), np.append(state.refused, room)


def _describe(book: Book, old: int, first: NDArray) -> None:
    """Message costs, change rates and sites of new keys, as their first rows have them."""
    stream = book.plans[0].shape.stream
    told = list(_told(stream))
    columns = {name: first[:, len(book.features) - len(told) + k] for k, name in enumerate(told)}
    if "cost" in columns:
        book.cost[old:] = np.where(np.isfinite(columns["cost"]) & (columns["cost"] > 0), columns["cost"], 1.0)
    if "rate" in columns:
        book.rate[old:] = np.where(np.isfinite(columns["rate"]) & (columns["rate"] > 0), columns["rate"], 0.0)
    elif stream.change_rate is not None:
        assert isinstance(stream.change_rate, float | int)
        book.rate[old:] = stream.change_rate
    if "site" in columns:
        book.site[old:] = np.where(np.isfinite(columns["site"]), columns["site"], -1).astype(np.int64)


def kernel_rows(
    state: State, batch: Batch, times: NDArray, clock: Clock, weights: Sequence[RunWeights]
) -> tuple[fs.Rows, NDArray]:
    """The rows that matter to some query, in ticks of EMIT EVERY; the others are dropped, refused ones counted."""
    item = np.zeros(0, np.int64)
    if len(batch.key):
        first = np.full(len(batch.keys), -1)
        first[batch.key[::-1]] = np.arange(len(batch.key) - 1, -1, -1)
        item = learn(state, batch.keys, batch.features[first], weights)[batch.key]
    items = len(state.book.number)
    with np.errstate(invalid="ignore"):
        usable = (np.abs(batch.features) < value_limits(state)[item]).all(axis=1) | (batch.deleted == 1)
    used = relevant(state)[item]
    state.rows += np.bincount(item[usable & used], minlength=items)
    state.refused += np.bincount(item[~usable & used], minlength=items)
    keep = np.flatnonzero(usable & used)
    batch, item = batch.take(keep), item[keep]
    every = state.book.plans[0].group.first.promise.emit_every
    of, ticks = (np.arange(len(times)), times) if every is None else coarse(times, clock.bucket(times, every))
    tick = of[np.searchsorted(times, batch.time)]
    last = last_of_each(tick, item)
    batch, item, tick = batch.take(last), item[last], tick[last]
    bits = np.uint64(feature_bits(state.book))
    rows = fs.Rows(
        start=np.searchsorted(tick, np.arange(len(ticks) + 1)).astype(np.int64),
        item=item.astype(np.int32),
        present=batch.present & bits,
        deleted=batch.deleted,
        feature=batch.features,
    )
    return rows, ticks


def feature_bits(book: Book) -> int:
    """The features that some slot holds or needs."""
    bits = 0
    for feature, needs in book.slots:
        bits |= needs if feature is None else needs | 1 << feature
    return bits


def value_limits(state: State) -> NDArray:
    """How large each feature of each item may be: float64[I, F]."""
    book = state.book
    largest = np.ones((len(book.number), len(book.features)))
    if len(book.value):
        feature = np.array([-1 if f is None else f for f, _ in book.slots])[book.value["slot"]]
        np.maximum.at(largest, (book.value["item"], feature), np.abs(book.value["weight"]))
    return HUGE / largest


def relevant(state: State) -> NDArray:
    """Which items some group counts: bool[I]."""
    found = np.zeros(len(state.book.number), bool)
    found[state.book.flag["item"]] = True
    return found


def run(wiring: fs.Wiring, totals: fs.State, rows: fs.Rows, method: str, history: Curves | None) -> list[fs.Emitted]:
    """All ticks of the rows; the coordinator plans whenever the kernel asks for it."""
    found, tick = [], 0
    while tick < len(rows.start) - 1:
        tick, asked, emitted = kernel.run(wiring, totals, rows, tick, METHODS[method])
        found.append(emitted)
        if asked:
            plan_widths(wiring, totals, history)
    return found


def step(
    state: State, batch: Batch, times: NDArray, clock: Clock, weights: Sequence[RunWeights], history: Curves | None
) -> tuple[State, Changes]:
    """Applies closed ticks: `times` are all of them, rows or not. Changes come by tick, then group."""
    rows, ticks = kernel_rows(state, batch, times, clock, weights)
    return state, changes_of(run(state.wiring, state.totals, rows, method_of(state), history), ticks)


def changes_of(parts: list[fs.Emitted], times: NDArray) -> Changes:
    """Reports of several runs by tick, then group."""
    tick, group, diff, low, high = (
        np.concatenate([getattr(p, name) for p in parts]) if parts else np.zeros(0)
        for name in ("tick", "group", "diff", "low", "high")
    )
    sizes = np.concatenate([np.diff(p.cell_start) for p in parts]) if parts else np.zeros(0, np.int64)
    start = np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(np.int64)
    order = np.lexsort((group, tick))
    tick = tick.astype(np.int64)
    return Changes(times[tick[order]], group[order].astype(np.int64), diff[order], start[order], low, high)


def _only_members(book: Book) -> NDArray:
    """Items that send their values as part of composites alone."""
    return np.setdiff1d(book.member["item"], book.value["item"])


def counters(state: State) -> Counters:
    """What was counted so far; messages that several queries share count in each."""
    book, totals = state.book, state.totals
    sizes = [len(p.group.queries) for p in book.plans]
    base, queries = np.concatenate(([0], np.cumsum(sizes)))[:-1], sum(sizes)
    F = len(book.features)
    query_of_group = base[book.group["plan"]] + book.cell["query"][book.group["first"]] if len(book.group) else []
    query_of_group = np.asarray(query_of_group, np.int64)
    is_rows = book.flag["total"] == fs.ROWS_TOTAL
    pairs = np.unique(book.flag["item"][is_rows] * queries + query_of_group[book.flag["target"][is_rows]])
    item, of_item = pairs // queries, pairs % queries
    feature = np.array([-1 if f is None else f for f, _ in book.slots])[book.value["slot"]]
    target_query = query_of_group[book.target["group"]] if len(book.target) else np.zeros(0, np.int64)
    pairs = np.unique((book.value["item"] * F + feature) * queries + target_query[book.value["target"]])
    filters, of_filter = pairs // queries, pairs % queries
    later = np.maximum(totals.changes - (totals.alive != fs.NEVER), 0)
    filtered, composite = np.zeros(len(book.number), bool), np.zeros(len(book.number), bool)
    filtered[book.value["item"]] = filtered[book.member["item"]] = True
    composite[book.composite["item"]] = True
    plain = np.where(filtered | composite, 0, later)
    values = np.where(np.repeat(composite, F), 0, totals.values)

    def summed(per_item: NDArray | None, per_filter: NDArray | None) -> NDArray:
        found = np.zeros(queries, np.int64)
        if per_item is not None:
            np.add.at(found, of_item, per_item[item])
        if per_filter is not None:
            np.add.at(found, of_filter, per_filter[filters])
        return found

    baseline = summed(plain + totals.arrivals, values)
    if len(book.member):  # what composites are made of would have been sent
        of_member = target_query[book.composite["target"][book.member["composite"]]]
        pairs = np.setdiff1d(book.member["item"] * queries + of_member, filters // F * queries + of_filter)
        np.add.at(baseline, pairs % queries, (later - totals.arrivals)[pairs // queries])
    reported = np.zeros(queries, np.int64)
    np.add.at(reported, query_of_group, totals.reports)
    violations = np.zeros(queries, np.int64)
    np.add.at(violations, query_of_group, totals.wide)
    hidden = (later - totals.arrivals)[_only_members(book)]
    return Counters(
        updates=summed(state.rows, None),
        rejected=summed(state.refused, None),
        initial=summed((totals.alive != fs.NEVER).astype(np.int64), None),
        messages=summed(totals.arrivals, totals.messages),
        control=summed(None, totals.control),
        reported=reported,
        baseline=baseline,
        violations=violations,
        total={
            "updates": int(state.rows.sum()),
            "initial": int((totals.alive != fs.NEVER).sum()),
            "messages": int(totals.messages.sum() + totals.arrivals.sum()),
            "control": int(totals.control.sum()),
            "baseline": int((plain + totals.arrivals).sum() + values.sum() + hidden.sum()),
            "violations": int(totals.wide.sum()),
        },
    )
