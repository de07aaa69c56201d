"""What a stream's own bounded source tells the planner: how many items, groups and updates, and how far they move.

A group's answer moves by wᵀΣw a tick, Σ the second moments of the items' changes. Where the changes fit on the driver
Σ is taken whole; else items are taken to move independently, and Spark sums their squared changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Window
from pyspark.sql import functions as F
from scipy.sparse import csr_matrix

from deadband.compiler.logical import Group, LinearAggregate
from deadband.compiler.lower.emit_on_drift import emit_on_drift
from deadband.compiler.physical import EmitOnDrift
from deadband.compiler.planning.emit_on_drift import reports_per_tick
from deadband.compiler.statistics import Known, Statistics
from deadband.runtime.context import Context
from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.operators import emit_on_drift as operator
from deadband.runtime.operators.drift_replay import constants_of, weights_runner
from deadband.runtime.sources.batch import batch_of, feature_columns, feature_name
from deadband.runtime.sources.clean import SEQ, TIME
from deadband.runtime.sources.filter_statistics import filter_statistics
from deadband.runtime.sources.frames import quoted
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sql import collected

__all__ = ["statistics_of"]

MOVES = 20_000_000  # ticks x items x features up to which all changes are laid out on the driver
PAIRED = 2_000  # items x features up to which moments of pairs are kept


@dataclass(frozen=True)
class _Moves:
    """How the items of a stream move in a tick: features of one item stand side by side."""

    keys: pa.Table
    updates: NDArray  # int64[I]
    levels: NDArray  # float64[I·F], mean values
    moments: NDArray  # float64[I·F], or float64[I·F, I·F] with those of pairs


def statistics_of(context: Context, group: Group) -> Known | None:
    """Expected figures of a group, or None where its stream has no source to count."""
    if group.first.promise.kind == "PRECISION":
        return filter_statistics(context, group)
    shape = group.first.shape
    if not isinstance(shape, LinearAggregate) or shape.stream.format is None:
        return None
    plan = emit_on_drift(group, None)
    if not isinstance(plan, EmitOnDrift):
        return None
    source = StreamInput(context.spark, shape.stream, None, once=context.driver_rows > 0)
    try:
        moves = _on_driver(plan, source) if source.fits(context.driver_rows) else None
        return _statistics(context, plan, source, moves or _on_spark(plan, source))
    finally:
        source.close()


def _on_driver(plan: EmitOnDrift, source: StreamInput) -> _Moves | None:
    """The changes of all items laid out by tick; None where that is too much."""
    key, features = plan.shape.stream.key, len(plan.features)
    batch = batch_of(source.collect(plan.features), key, features)
    items, ticks = len(batch.keys), len(source.times)
    if items * features > PAIRED or items * features * ticks > MOVES:
        return None
    order = np.argsort(batch.key, kind="stable")
    same = np.append(False, np.diff(batch.key[order]) == 0) if len(order) else np.zeros(0, bool)
    moved = np.zeros((ticks, items * features))
    levels = np.zeros((items, features))
    updates = np.bincount(batch.key, minlength=items)
    tick = np.searchsorted(source.times, batch.time[order])
    for f in range(features):
        value = batch.features[order, f]
        present = (batch.present[order] >> np.uint64(f)) & np.uint64(1) == 1
        change = np.where(same & present & np.append(False, present[:-1]), np.diff(value, prepend=0.0), 0.0)
        np.add.at(moved, (tick, batch.key[order] * features + f), np.where(np.isfinite(change), change, 0.0))
        finite = np.where(np.isfinite(value), value, 0.0)
        levels[:, f] = np.bincount(batch.key[order], finite, minlength=items) / np.maximum(updates, 1)
    return _Moves(batch.keys, updates, levels.reshape(-1), moved.T @ moved / max(ticks, 1))


def _on_spark(plan: EmitOnDrift, source: StreamInput) -> _Moves:
    """Squared changes item by item, summed by Spark."""
    key = [F.col(quoted(k)) for k in plan.shape.stream.key]
    before = Window.partitionBy(*key).orderBy(TIME, SEQ)
    rows = source.good().select(*key, TIME, SEQ, *feature_columns(plan.features))
    names = [feature_name(i) for i in range(len(plan.features))]
    changes = [(F.col(n) - F.lag(n).over(before)).alias(f"__change_{n}") for n in names]
    per_item = [F.sum(F.col(f"__change_{n}") ** 2).alias(f"__moment_{n}") for n in names]
    per_item += [F.mean(n).alias(f"__level_{n}") for n in names]
    found = collected(rows.select("*", *changes).groupBy(*key).agg(F.count(F.lit(1)).alias("__updates"), *per_item))

    def per_feature(what: str) -> NDArray:
        columns = [found[f"__{what}_{n}"].fill_null(0.0).to_numpy() for n in names]
        return np.stack(columns, axis=1).reshape(-1) if columns else np.zeros(0)

    moments = per_feature("moment") / max(len(source.times), 1)
    keys = found.select(list(plan.shape.stream.key))
    return _Moves(keys, found["__updates"].to_numpy(), per_feature("level"), moments)


def _statistics(context: Context, plan: EmitOnDrift, source: StreamInput, moves: _Moves) -> Statistics:
    state = operator.init(plan, constants_of(context, plan))
    operator.learn(plan, state, moves.keys, weights_runner(context, plan))  # a new state numbers items as they come
    ticks = max(len(operator.ticks_of(plan, source.times, source.clock)[1]), 1)
    wiring, answers, groups = state.wiring, len(plan.shape.answers), len(state.groups)
    slot, target, weight = state.edges.value_slot, state.edges.value_target, state.edges.value_weight
    rate = np.minimum(moves.updates / ticks, 1.0)
    moment, level, quiet = np.zeros(len(wiring.bound)), np.zeros(len(wiring.bound)), np.ones(groups)
    values = len(wiring.value_feature)
    if values and len(slot):
        column = slot // values * len(plan.features) + wiring.value_feature[slot % values]
        weights = csr_matrix((weight, (target, column)), shape=(len(wiring.bound), len(rate) * len(plan.features)))
        if moves.moments.ndim == 2:
            moment = np.asarray(weights.multiply(weights @ moves.moments).sum(axis=1)).reshape(-1)
        else:
            moment = weights.multiply(weights) @ moves.moments
        level = np.abs(weights @ moves.levels)
        np.multiply.at(quiet, target // answers, 1.0 - rate[slot // values])
    of_average = np.tile(wiring.kind == kernel.AVG, groups)
    counting = state.edges.flag_total == kernel.COUNT_TOTAL
    count = np.bincount(state.edges.flag_target[counting], state.edges.flag_weight[counting], minlength=len(moment))
    share = np.where(of_average, 1.0 / np.maximum(count, 1.0), 1.0)  # an average moves by a share of its sum
    moment, level = moment * share**2, level * share
    bound = np.where(np.tile(wiring.percent, groups) == 1, wiring.bound * level, wiring.bound)
    reports = reports_per_tick(moment, bound, np.repeat(1.0 - quiet, answers)).reshape(-1, answers)
    return Statistics(
        ticks=ticks,
        updates=int(moves.updates.sum()),
        items=len(rate),
        groups=groups,
        edges=len(slot),
        baseline=float((1.0 - quiet).sum() * ticks),
        reported=float(reports.max(axis=1, initial=0.0).sum() * ticks),
        paired=moves.moments.ndim == 2,
    )
