"""What a stream's own bounded source tells the planner: how many items, groups and updates, and how far items move."""

from __future__ import annotations

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F

from deadband.compiler.logical import Group, LinearAggregate
from deadband.compiler.lower.emit_on_drift import emit_on_drift
from deadband.compiler.physical import EmitOnDrift
from deadband.compiler.planning.emit_on_drift import reports_per_tick
from deadband.compiler.statistics import Statistics
from deadband.runtime.context import Context
from deadband.runtime.operators import emit_on_drift as operator
from deadband.runtime.operators.drift_replay import constants_of, weights_runner
from deadband.runtime.sources.batch import feature_columns, feature_name
from deadband.runtime.sources.clean import SEQ, TIME
from deadband.runtime.sources.frames import quoted
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sql import collected

__all__ = ["statistics_of"]


def statistics_of(context: Context, group: Group) -> Statistics | None:
    """Expected figures of a group, or None where its stream has no source to count."""
    shape = group.first.shape
    if not isinstance(shape, LinearAggregate) or shape.stream.format is None:
        return None
    plan = emit_on_drift(group, None)
    if not isinstance(plan, EmitOnDrift):
        return None
    source = StreamInput(context.spark, shape.stream, None)
    try:
        return _statistics(context, plan, source)
    finally:
        source.close()


def _statistics(context: Context, plan: EmitOnDrift, source: StreamInput) -> Statistics:
    """Second moments of the features' changes per tick, item by item; a group's moment is Σ w² m over its items."""
    key = [F.col(quoted(k)) for k in plan.shape.stream.key]
    before = Window.partitionBy(*key).orderBy(TIME, SEQ)
    rows = source.good().select(*key, TIME, SEQ, *feature_columns(plan.features))
    features = range(len(plan.features))
    values = [F.col(feature_name(i)) for i in features]
    moved = rows.select(*key, *((v - F.lag(v).over(before)).alias(feature_name(i)) for i, v in enumerate(values)))
    per_item = moved.groupBy(*key).agg(
        F.count(F.lit(1)).alias("__updates"), *(F.sum(v**2).alias(feature_name(i)) for i, v in enumerate(values))
    )
    found = collected(per_item)
    state = operator.init(plan, constants_of(context, plan))
    item = operator.learn(plan, state, found.select(list(plan.shape.stream.key)), weights_runner(context, plan))
    ticks = max(len(operator.ticks_of(plan, source.times, source.clock)[1]), 1)
    wiring, answers = state.wiring, len(plan.shape.answers)
    values = len(wiring.value_feature)
    moment = np.zeros((len(state.number), max(len(plan.features), 1)))
    rate = np.zeros(len(state.number))
    for i in features:
        moment[item, i] = found[feature_name(i)].fill_null(0.0).to_numpy() / ticks
    rate[item] = np.minimum(found["__updates"].to_numpy() / ticks, 1.0)
    slot, target, weight = state.edges.value_slot, state.edges.value_target, state.edges.value_weight
    per_answer, quiet = np.zeros(len(wiring.bound)), np.ones(len(state.groups))
    if values:
        np.add.at(per_answer, target, weight**2 * moment[slot // values, wiring.value_feature[slot % values]])
        np.multiply.at(quiet, target // answers, 1.0 - rate[slot // values])
    changes = np.repeat(1.0 - quiet, answers)
    bound = np.where(np.tile(wiring.percent, len(state.groups)) == 1, 0.0, wiring.bound)
    reports = reports_per_tick(per_answer, bound, changes).reshape(-1, answers).max(axis=1) if len(state.groups) else quiet
    return Statistics(
        ticks=ticks,
        updates=int(rate[item].sum() * ticks) if len(item) else 0,
        items=len(state.number),
        groups=len(state.groups),
        edges=len(slot),
        baseline=float((1.0 - quiet).sum() * ticks),
        reported=float(reports.sum() * ticks),
    )
