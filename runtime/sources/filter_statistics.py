"""What the filters of a PRECISION group are expected to do, from analysed statistics or the stream's own source.

Every key is taken to be there at its mean value: for that one tick the real operator wires groups, counts members and
plans widths as it will when it starts, so what EXPLAIN shows is what will be in force. Curves then tell the messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from deadband.compiler.logical import Group
from deadband.compiler.lower.adaptive_filter import adaptive_filter
from deadband.compiler.physical import AdaptiveFilter
from deadband.compiler.planning.adaptive_filter import uniform
from deadband.compiler.planning.cost_curves import Curves, expected
from deadband.compiler.statistics import FilterStatistics
from deadband.runtime.clock import Clock
from deadband.runtime.context import Context
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.operators import adaptive_filter as operator
from deadband.runtime.operators.drift_replay import constants_of, weights_runner
from deadband.runtime.operators.filter_composites import chosen, moments_of
from deadband.runtime.operators.filter_history import history_of
from deadband.runtime.operators.filter_planning import load_of
from deadband.runtime.operators.filter_planning import plan as plan_widths
from deadband.runtime.sources.analyze import analyzed
from deadband.runtime.sources.batch import Batch, encoded
from deadband.runtime.sources.clean import schema_of
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sources.item_statistics import ItemStatistics, feature_text, key_names

__all__ = ["filter_statistics"]

SHOWN = 10  # items and groups that EXPLAIN names
SPACING, LONGEST = 50.0, 800.0  # messages per filter from plan to plan: at first, and once plans have brought nothing
UNKNOWN = -1.0  # no cost, rate or site is below 0, so the operator takes its default


@dataclass(frozen=True)
class _Filters:
    """The filters of a group after the tick in which everything is there."""

    plan: AdaptiveFilter
    state: operator.State
    history: Curves
    active: NDArray  # bool[I·F]
    updates: NDArray  # float64[I·F], values after the first
    widths: NDArray  # float64[I·F]
    uniform: NDArray  # float64[I·F]
    composites: int  # answers that are filtered as one sum at their site


def filter_statistics(context: Context, group: Group) -> FilterStatistics | None:
    """Expected figures of a group; None where nothing is known of its items."""
    plan = adaptive_filter(group, None)
    assert isinstance(plan, AdaptiveFilter)
    stream, every = plan.shape.stream, group.first.promise.emit_every
    features = operator.features_of([plan])
    known = context.statistics.get(stream.name.lower())
    analysed = known is not None and all(feature_text(f) in known.rows for f in plan.features)
    if stream.format is not None and (not analysed or every is not None):  # statistics know no EMIT EVERY
        source = StreamInput(context.spark, stream, None, once=context.driver_rows > 0)
        try:
            known, analysed = analyzed(context, source, features, every), False
        finally:
            source.close()
    elif not analysed:
        return None
    assert known is not None
    filters = _filters(context, plan, known, features)
    return None if filters is None else _statistics(filters, known, analysed)


def _filters(
    context: Context, plan: AdaptiveFilter, known: ItemStatistics, features: list[exp.Expr]
) -> _Filters | None:
    stream = plan.shape.stream
    keys = known.table.select(key_names(stream)).rename_columns(list(stream.key))
    keys = keys.take(encoded(keys)[1]) if len(keys) else keys
    numbers = list(zip(*(c.to_pylist() for c in keys.columns), strict=True))
    row = np.full((len(numbers), len(features)), -1)
    for f, feature in enumerate(features):
        found = known.rows.get(feature_text(feature), {})
        row[:, f] = [found.get(k, -1) for k in numbers]
    there = row >= 0
    if not there.any():
        return None
    level = np.where(there, known.column("level")[row], UNKNOWN)
    state = operator.init([plan], [constants_of(context, plan)])
    clock = Clock(schema_of(context.spark, stream)[stream.timestamp].dataType, "UTC")
    rows, _ = operator.kernel_rows(
        state, _all_there(keys, level, there), np.zeros(1, np.int64), clock, [weights_runner(context, plan)]
    )
    history = history_of(state.book, known)
    assert history is not None
    composites = _composites(plan, state, keys, level, history)
    kernel.run(state.wiring, state.totals, rows, 0, operator.METHODS["adaptive"])
    active = state.totals.active == 1
    load, budget = load_of(state.wiring, state.totals)
    equal = np.where(active, uniform(load, budget), 0.0)
    plan_widths(state.wiring, state.totals, history)
    updates = np.where(there, np.maximum(known.column("updates")[row] - 1, 0), 0).reshape(-1)
    return _Filters(plan, state, history, active, updates, state.totals.width.copy(), equal, composites)


def _composites(plan: AdaptiveFilter, state: operator.State, keys: pa.Table, level: NDArray, history: Curves) -> int:
    """How many answers would be filtered as one sum at their site; estimates still count their items one by one."""
    stream = plan.shape.stream
    if not stream.source_by or plan.method == "none":
        return 0
    if set(stream.source_by) <= set(stream.key):
        state.book.site[:] = encoded(keys.select(list(stream.source_by)))[0]
    else:  # the site's hash is the last feature; a mean of equal numbers may be off by a rounding
        known = level[:, -1] != UNKNOWN
        state.book.site[:] = np.where(known, np.floor(level[:, -1] / 1024), -1)
    return len(chosen(state, moments_of(history)))


def _all_there(keys: pa.Table, level: NDArray, there: NDArray) -> Batch:
    """One tick in which every key has a row with its mean values."""
    items, bits = len(keys), np.left_shift(np.uint64(1), np.arange(level.shape[1], dtype=np.uint64))
    present = (there * bits).sum(axis=1).astype(np.uint64)
    return Batch(np.zeros(items, np.int64), np.arange(items), keys, np.zeros(items, np.uint8), level, present)


def _statistics(filters: _Filters, known: ItemStatistics, analysed: bool) -> FilterStatistics:
    book, totals, active = filters.state.book, filters.state.totals, filters.active
    F, method = len(book.features), filters.plan.method
    ticks = int(known.column("ticks").max())
    widths = {"uniform": filters.uniform, "none": np.zeros(len(active))}.get(method, filters.widths)
    baseline = float(filters.updates[active].sum())
    rate = np.where(active, expected(filters.history, widths), 0.0)
    even = float(expected(filters.history, filters.uniform)[active].sum()) * ticks
    messages = baseline if method == "none" else even if method == "uniform" else float(rate.sum()) * ticks
    tied = active & (totals.single == 0)
    used = operator.relevant(filters.state)
    return FilterStatistics(
        ticks=ticks,
        updates=int((filters.updates.reshape(-1, F).max(axis=1) + 1)[used].sum()),
        items=int(used.sum()),
        groups=len(book.group),
        edges=len(book.value),
        components=len(np.unique(totals.component[tied])),
        fixed=int((active.reshape(-1, F).any(axis=1) & ~tied.reshape(-1, F).any(axis=1)).sum()),
        composites=filters.composites,
        widths=_busiest(filters, widths, rate),
        budgets=_tightest(filters, widths),
        messages=messages,
        control=_asks(messages, int(tied.sum())) if method in ("adaptive", "reference") else 0.0,
        uniform=even,
        baseline=baseline,
        analysed=analysed,
    )


def _asks(messages: float, tied: int) -> float:
    """Control messages of filters that are asked for their counts ever more rarely, as long as nothing is gained."""
    asks, wait, left = 0, SPACING, messages / max(tied, 1)
    while left >= wait and wait < LONGEST:
        asks, left, wait = asks + 1, left - wait, min(2.0 * wait, LONGEST)
    return float(tied * (asks + int(left / wait)))


def _busiest(filters: _Filters, widths: NDArray, rate: NDArray) -> tuple[tuple[str, float, float], ...]:
    book = filters.state.book
    F, names = len(book.features), list(book.number)
    several = len({int(j) % F for j in np.flatnonzero(filters.active)}) > 1
    order = np.flatnonzero(filters.active)
    order = order[np.argsort(-rate[order], kind="stable")][:SHOWN]

    def label(j: int) -> str:
        item = ", ".join(map(str, names[j // F]))
        return f"{item} {feature_text(book.features[j % F])}" if several else item

    return tuple((label(int(j)), float(widths[j]), float(rate[j])) for j in order)


def _tightest(filters: _Filters, widths: NDArray) -> tuple[tuple[str, float, float], ...]:
    """Groups by how little of their bound is left, in the units of the answer."""
    wiring, totals, book = filters.state.wiring, filters.state.totals, filters.state.book
    load, budget = load_of(wiring, totals)
    cell = wiring.target_cell.astype(np.int64)
    on = np.flatnonzero((np.diff(load.indptr) > 0) & (budget > 0))
    if not len(on):
        return ()
    members = np.where(wiring.cell_kind[cell[on]] == fs.AVG, np.maximum(totals.count[on], 1.0), 1.0)
    used, allowed = (load @ widths)[on] / members, budget[on] / members
    order = on[np.lexsort((allowed, -used / allowed))]
    figures = {int(t): (float(u), float(a)) for t, u, a in zip(on, used, allowed)}
    answers = filters.plan.shape.answers
    bounded = sum(b is not None for b in filters.plan.group.first.promise.bounds)
    found: dict[int, tuple[str, float, float]] = {}
    for t in map(int, order):
        if len(found) == SHOWN:
            break
        answer = answers[book.cell["answer"][cell[t]]].name if bounded > 1 else ""
        found.setdefault(int(cell[t]), (f"{_group_name(filters, t)} {answer}".strip(), *figures[t]))
    return tuple(found.values())


def _group_name(filters: _Filters, target: int) -> str:
    """The group columns of the group that a target belongs to; the query's name where there are none."""
    book, group = filters.state.book, int(filters.state.wiring.target_group[target])
    rows, row = book.groups[0], int(book.group["row"][group])
    columns = [c for c in rows.rows.column_names if c[0] == "g"]
    values = ", ".join(str(rows.rows[c][row].as_py()) for c in columns)
    query = filters.plan.group.queries[int(rows.query[row])].name
    return f"{query}: {values}" if len(filters.plan.group.queries) > 1 and values else values or query
