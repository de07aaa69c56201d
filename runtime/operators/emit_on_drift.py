"""EmitOnDrift on Spark: weights by Spark, the kernel on the driver for small input or on executors in blocks of groups.

init(plan) -> State, step(State, closed ticks) -> (State, changes). A step may bring keys never seen: Spark runs the
weights query for them alone, and they join the groups they belong to at their first tick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deadband.compiler.bind.template import QUERY
from deadband.compiler.lower.weights import ITEM
from deadband.compiler.physical import EmitOnDrift
from deadband.runtime.clock import Clock, coarse
from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.operators.wiring import Edges, Groups, edges_of, no_edges, wire
from deadband.runtime.sources.batch import Batch, last_of_each

__all__ = [
    "Changes", "Counters", "State", "count", "counters", "init", "kernel_rows", "learn", "relevant", "rewired", "step",
    "ticks_of", "value_limits",
]  # fmt: skip

HUGE = 1e300  # a weight times a value beyond this would overflow in a sum

RunWeights = Callable[[pa.Table], pa.Table]  # keys with ITEM -> rows of the weights query


@dataclass
class State:
    """What outlives a step: the items known, how they are wired to the groups, and the kernel's totals."""

    keys: pa.Table | None
    number: dict[tuple, int]  # key -> item
    edges: Edges
    groups: Groups
    wiring: kernel.Wiring
    totals: kernel.State
    updates: NDArray  # int64[Q], relevant rows in
    rejected: NDArray  # int64[Q], relevant rows whose values cannot be summed
    used: NDArray  # int64[I], rows in that matter to some query
    refused: NDArray  # int64[I], rows that would, if their values could be summed


@dataclass(frozen=True)
class Changes:
    """Reports in order of time: group numbers refer to the state's groups."""

    time: NDArray
    group: NDArray
    diff: NDArray
    answer: NDArray  # float64[reports, A], NaN: NULL


@dataclass(frozen=True)
class Counters:
    """Counted where it happened, one entry per query of the group."""

    updates: NDArray
    rejected: NDArray
    initial: NDArray
    reported: NDArray
    baseline: NDArray
    violations: NDArray
    group_ticks: NDArray
    max_error: NDArray
    worst_share: NDArray


def init(plan: EmitOnDrift, constants: dict[str, pa.Scalar]) -> State:
    """Nothing known yet. A global aggregate has its one group from the start, with these constant columns."""
    queries = len(plan.group.queries)
    there = 0 if plan.shape.groups else queries
    columns = {QUERY: np.arange(there, dtype=np.int32), **{o: pa.repeat(c, there) for o, c in constants.items()}}
    groups = Groups(pa.table(columns))
    wiring = wire(plan, no_edges(), groups.query, 0)
    totals = kernel.new_state(wiring, 0, queries)
    none, no_items = np.zeros(queries, np.int64), np.zeros(0, np.int64)
    return State(None, {}, no_edges(), groups, wiring, totals, none, none.copy(), no_items, no_items)


def learn(plan: EmitOnDrift, state: State, keys: pa.Table, run_weights: RunWeights) -> NDArray:
    """The items of these keys; new keys are wired to the groups they belong to."""
    wanted = list(zip(*(c.to_pylist() for c in keys.columns), strict=True)) if len(keys) else []
    fresh = [i for i, k in enumerate(wanted) if k not in state.number]
    if fresh:
        first = len(state.number)
        new = keys.take(pa.array(fresh)) if len(fresh) < len(keys) else keys
        for i, row in enumerate(fresh):
            state.number[wanted[row]] = first + i
        numbered = new.append_column(ITEM, pa.array(np.arange(first, first + len(fresh), dtype=np.int64)))
        edges, state.groups = edges_of(plan, run_weights(numbered), state.groups)
        state.keys = new if state.keys is None else pa.concat_tables([state.keys, new]).combine_chunks()
        state.edges = edges if first == 0 else state.edges.joined(edges)
        state.wiring = wire(plan, state.edges, state.groups.query, len(state.number))
        state.totals = _grown(state.totals, kernel.new_state(state.wiring, len(state.number), len(plan.group.queries)))
        room = np.zeros(len(fresh), np.int64)
        state.used, state.refused = np.append(state.used, room), np.append(state.refused, room)
    return np.array([state.number[k] for k in wanted], np.int64)


def rewired(plan: EmitOnDrift, state: State, run_weights: RunWeights) -> None:
    """New weights for all items (a static table was refreshed): totals are summed anew, what was reported stays."""
    if state.keys is None:
        return
    numbered = state.keys.append_column(ITEM, pa.array(np.arange(len(state.keys), dtype=np.int64)))
    state.edges, state.groups = edges_of(plan, run_weights(numbered), state.groups)
    state.wiring = wire(plan, state.edges, state.groups.query, len(state.number))
    state.totals = _grown(state.totals, kernel.new_state(state.wiring, len(state.number), len(plan.group.queries)))
    kernel.sum_anew(state.wiring, state.totals)
    kernel.touch_all(state.totals)


def step(
    plan: EmitOnDrift, state: State, batch: Batch, times: NDArray, clock: Clock, run_weights: RunWeights
) -> tuple[State, Changes]:
    """Applies closed ticks: `times` are all of them, rows or not. Changes come by tick, then group."""
    rows, ticks = kernel_rows(plan, state, batch, times, clock, run_weights)
    emitted = kernel.step(state.wiring, state.totals, rows)
    order = np.lexsort((emitted.group, emitted.tick))
    return state, Changes(ticks[emitted.tick[order]], emitted.group[order], emitted.diff[order], emitted.answer[order])


def kernel_rows(
    plan: EmitOnDrift, state: State, batch: Batch, times: NDArray, clock: Clock, run_weights: RunWeights
) -> tuple[kernel.Rows, NDArray]:
    """The rows that matter to some group, in ticks of EMIT EVERY; the others are dropped, refused ones counted."""
    item = learn(plan, state, batch.keys, run_weights)[batch.key] if len(batch.key) else np.zeros(0, np.int64)
    finite = _usable(plan, state, batch, item)
    items = len(state.number)
    count(state, np.bincount(item[finite], minlength=items), np.bincount(item[~finite], minlength=items))
    used = finite & relevant(state)[item]
    batch, item = batch.take(np.flatnonzero(used)), item[used]
    of, ticks = ticks_of(plan, times, clock)
    tick = of[np.searchsorted(times, batch.time)]
    last = last_of_each(tick, batch.key)
    batch, item, tick = batch.take(last), item[last], tick[last]
    rows = kernel.Rows(
        start=np.searchsorted(tick, np.arange(len(ticks) + 1)).astype(np.int64),
        item=item.astype(np.int32),
        present=batch.present,
        deleted=batch.deleted,
        feature=batch.features,
        window=clock.bucket(ticks, plan.group.first.promise.window),
    )
    return rows, ticks


def ticks_of(plan: EmitOnDrift, times: NDArray, clock: Clock) -> tuple[NDArray, NDArray]:
    """The tick of each time, and the time of each tick: EMIT EVERY makes ticks coarser."""
    every = plan.group.first.promise.emit_every
    if every is None:
        return np.arange(len(times)), times
    return coarse(times, clock.bucket(times, every))


def counters(state: State, blocks: list[tuple[NDArray, NDArray]] | None = None) -> Counters:
    """The counters so far, summed over blocks of groups where the work was cut."""
    counted = blocks or [kernel.counted(state.wiring, state.totals)]
    counts = np.sum([c for c, _ in counted], axis=0)
    figures = [f for _, f in counted]
    return Counters(
        updates=state.updates,
        rejected=state.rejected,
        initial=counts[:, kernel.INITIAL],
        reported=counts[:, kernel.REPORTED],
        baseline=counts[:, kernel.BASELINE],
        violations=counts[:, kernel.VIOLATIONS],
        group_ticks=counts[:, kernel.GROUP_TICKS],
        max_error=np.max([f[:, kernel.MAX_ERROR] for f in figures], axis=0),
        worst_share=np.min([f[:, kernel.WORST_SHARE] for f in figures], axis=0),
    )


def _usable(plan: EmitOnDrift, state: State, batch: Batch, item: NDArray) -> NDArray:
    """Rows whose features are finite and small enough to be summed; a deleted row needs no values."""
    with np.errstate(invalid="ignore"):
        good = (np.abs(batch.features) < value_limits(plan, state)[item]).all(axis=1)  # false for NaN
    return good | (batch.deleted == 1)


def value_limits(plan: EmitOnDrift, state: State) -> NDArray:
    """How large each feature of each item may be: float64[I, F]."""
    largest = np.ones((len(state.number), len(plan.features)))
    values = len(state.wiring.value_feature)
    if values:
        item, feature = state.edges.value_slot // values, state.wiring.value_feature[state.edges.value_slot % values]
        np.maximum.at(largest, (item, feature), np.abs(state.edges.value_weight))
    return HUGE / largest


def count(state: State, good: NDArray, bad: NDArray) -> None:
    """Counts rows per item, those with values that can be summed and those without, where they matter."""
    queries, flags = len(state.updates), len(state.wiring.flag_needs)
    is_rows = state.edges.flag_total == kernel.ROWS_TOTAL
    pairs = (state.edges.flag_slot[is_rows] // flags) * queries + state.groups.query[state.edges.flag_target[is_rows]]
    pairs = np.unique(pairs)
    np.add.at(state.updates, pairs % queries, good[pairs // queries])
    np.add.at(state.rejected, pairs % queries, bad[pairs // queries])
    state.used += np.where(relevant(state), good, 0)
    state.refused += np.where(relevant(state), bad, 0)


def relevant(state: State) -> NDArray:
    """Which items some group counts: bool[I]."""
    edges = np.diff(state.wiring.flag_start).reshape(len(state.number), len(state.wiring.flag_needs))
    return edges.sum(axis=1) > 0


def _grown(old: kernel.State, new: kernel.State) -> kernel.State:
    """The old state in arrays that have room for what was added."""
    fields = {}
    for name in kernel.State._fields:
        before, after = getattr(old, name), getattr(new, name)
        if before.shape == after.shape:
            fields[name] = before
            continue
        after = after.copy()
        after[: len(before)] = before
        fields[name] = after
    return kernel.State(**fields)
