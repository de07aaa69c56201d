"""EmitOnDrift over bounded history, from an empty state: small input on the driver, large input on executors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deadband.compiler.lower.weights import ITEM, KEYS
from deadband.compiler.physical import AdaptiveFilter, EmitOnDrift
from deadband.runtime.answers import drift_table
from deadband.runtime.clock import Clock
from deadband.runtime.context import Context, parameters
from deadband.runtime.operators import emit_on_drift as operator
from deadband.runtime.operators.drift_blocks import TICK, run_on_executors, run_on_threads
from deadband.runtime.sources.batch import batch_of, encoded, feature_columns, feature_name
from deadband.runtime.sources.clean import DELETED, SEQ, TIME
from deadband.runtime.sources.frames import from_arrow, pandas_of, quoted
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sql import collected, run_query, temp_views

__all__ = ["DriftResult", "constants_of", "drift_figures", "drift_replay", "weights_runner"]

USABLE = "__usable"


@dataclass(frozen=True)
class DriftResult:
    """The reports and counters of one group of queries."""

    plan: EmitOnDrift
    changes: operator.Changes
    state: operator.State
    counters: operator.Counters
    clock: Clock
    schema: T.StructType
    where: str
    seconds: dict[str, float]  # weights: Spark and wiring; kernel: all ticks

    until: Any  # the last tick, as users write it; None: there was none

    def answers(self, index: int) -> pd.DataFrame:
        return pandas_of(self._table(index), self.clock.timezone)

    def frame(self, spark: SparkSession, index: int) -> DataFrame:
        """The answers on Spark, with the types of the query."""
        return from_arrow(spark, self._table(index))

    def _table(self, index: int) -> pa.Table:
        mine = np.flatnonzero(self.state.groups.query[self.changes.group] == index)
        query = self.plan.group.queries[index]
        return drift_table(self.plan, query, self.changes, self.state.groups, mine, self.clock, self.schema)

    def figures(self, index: int) -> dict[str, Any]:
        return drift_figures(self.plan, self.counters, index)


def drift_figures(plan: EmitOnDrift, counters: operator.Counters, index: int) -> dict[str, Any]:
    """The report of one query."""
    return {
        "updates": int(counters.updates[index]),
        "initial": int(counters.initial[index]),
        "messages": int(counters.reported[index]),
        "reported": int(counters.reported[index]),
        "baseline": int(counters.baseline[index]),
        "violations": int(counters.violations[index]),
        "fidelity": float(counters.worst_share[index]),
        "max_error": float(counters.max_error[index]),
        "rejected": int(counters.rejected[index]),
    }


def drift_replay(context: Context, plan: EmitOnDrift, source: StreamInput, table: pa.Table | None) -> DriftResult:
    """Runs all ticks. table: the rows on the driver, with this plan's features; None: too many for it."""
    started = time.perf_counter()
    schema = context.result_schema(plan.group)
    state = operator.init(plan, constants_of(context, plan))
    run_weights = weights_runner(context, plan)
    if table is not None:
        batch = batch_of(table, plan.shape.stream.key, len(plan.features))
        rows, ticks = operator.kernel_rows(plan, state, batch, source.times, source.clock, run_weights)
        planned = time.perf_counter()
        changes, counted = run_on_threads(plan, state, rows, ticks, context.threads)
        where = "driver"
    else:
        planned = time.perf_counter()
        changes, counted = _on_executors(context, plan, state, source, run_weights)
        where = "executors"
    seconds = {"weights": planned - started, "kernel": time.perf_counter() - planned}
    counters = operator.counters(state, counted)
    return DriftResult(plan, changes, state, counters, source.clock, schema, where, seconds, source.until)


def weights_runner(context: Context, plan: EmitOnDrift | AdaptiveFilter) -> operator.RunWeights:
    """Runs the weights query for some keys, on Spark, over the snapshots of the static tables."""
    spark = context.spark

    def run(keys: pa.Table) -> pa.Table:
        frames = {KEYS: from_arrow(spark, keys), **parameters(spark, plan.group)}
        with temp_views(frames) as views:
            names = {**views, **context.tables.views(plan.weights.tables)}
            return collected(run_query(spark, plan.weights.query, names))

    return run


def constants_of(context: Context, plan: EmitOnDrift | AdaptiveFilter) -> dict[str, pa.Scalar]:
    """The constant columns beside a global aggregate."""
    outputs = {f"o{i}": o.expression for i, o in enumerate(plan.shape.outputs) if o.expression is not None}
    if plan.shape.groups or not outputs:
        return {}
    row = collected(context.spark.range(1).select(*(F.expr(e.sql("spark")).alias(o) for o, e in outputs.items())))
    return {o: row[o][0] for o in outputs}


def _on_executors(
    context: Context, plan: EmitOnDrift, state: operator.State, source: StreamInput, run_weights: operator.RunWeights
) -> tuple[operator.Changes, list[tuple[NDArray, NDArray]]]:
    stream = plan.shape.stream
    key = [F.col(quoted(k)) for k in stream.key]
    good = source.good().select(*key, TIME, SEQ, DELETED, *feature_columns(plan.features))
    keys = collected(good.select(*key).distinct())
    keys = keys.take(encoded(keys)[1])
    operator.learn(plan, state, keys, run_weights)
    of, ticks = operator.ticks_of(plan, source.times, source.clock)
    windows = source.clock.bucket(ticks, plan.group.first.promise.window)
    rows = _numbered(context, plan, state, good, keys, source.times, of).persist()
    try:
        _count(plan, state, rows)
        names = [DELETED, *map(feature_name, range(len(plan.features)))]
        last = F.max_by(F.struct(*names), F.struct(TIME, SEQ)).alias("row")
        once = rows.where(USABLE).groupBy(ITEM, TICK).agg(last).select(ITEM, TICK, "row.*")
        return run_on_executors(plan, state, once, windows, ticks, context.spark.sparkContext.defaultParallelism)
    finally:
        rows.unpersist()


def _numbered(
    context: Context,
    plan: EmitOnDrift,
    state: operator.State,
    good: DataFrame,
    keys: pa.Table,
    times: NDArray,
    of: NDArray,
) -> DataFrame:
    """Rows with their item (numbered in key order) and tick; USABLE says whether their values can be summed."""
    limits = operator.value_limits(plan, state)
    items = keys.append_column(ITEM, pa.array(np.arange(len(keys), dtype=np.int64)))
    for f in range(len(plan.features)):
        items = items.append_column(f"__limit{f}", pa.array(limits[:, f]))
    ticks = pa.table({TIME: pa.array(times), TICK: pa.array(of.astype(np.int64))})
    found = good.join(F.broadcast(from_arrow(context.spark, items)), list(plan.shape.stream.key))
    found = found.join(F.broadcast(from_arrow(context.spark, ticks)), TIME)
    usable = F.lit(True)
    for f in range(len(plan.features)):
        value = F.col(feature_name(f))
        usable = usable & (value.isNull() | (~F.isnan(value) & (F.abs(value) < F.col(f"__limit{f}"))))
    names = map(feature_name, range(len(plan.features)))
    return found.select(ITEM, TICK, TIME, SEQ, DELETED, (F.col(DELETED) | usable).alias(USABLE), *names)


def _count(plan: EmitOnDrift, state: operator.State, rows: DataFrame) -> None:
    per_item = rows.groupBy(ITEM).agg(F.count_if(USABLE).alias("good"), F.count_if(~F.col(USABLE)).alias("bad"))
    found = collected(per_item)
    good, bad = np.zeros(len(state.number), np.int64), np.zeros(len(state.number), np.int64)
    good[found[ITEM]], bad[found[ITEM]] = found["good"], found["bad"]
    operator.count(state, good, bad)
