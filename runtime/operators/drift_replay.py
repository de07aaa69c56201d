"""EmitOnDrift over bounded history, from an empty state: small input on the driver, large input on executors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deadband.compiler.lower.weights import ITEM, KEYS
from deadband.compiler.physical import EmitOnDrift
from deadband.runtime.answers import drift_frame
from deadband.runtime.clock import Clock
from deadband.runtime.context import Context, parameters
from deadband.runtime.operators import emit_on_drift as operator
from deadband.runtime.operators.drift_blocks import run_on_executors, run_on_threads
from deadband.runtime.sources.batch import batch_of, feature_columns
from deadband.runtime.sources.clean import DELETED, SEQ, TIME
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sql import run_query, temp_views

__all__ = ["DriftResult", "constants_of", "drift_replay", "weights_runner"]


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

    def answers(self, index: int) -> pd.DataFrame:
        mine = np.flatnonzero(self.state.groups.query[self.changes.group] == index) if len(self.changes.group) else []
        query = self.plan.group.queries[index]
        rows = np.asarray(mine, np.int64)
        return drift_frame(self.plan, query, self.changes, self.state.groups, rows, self.clock, self.schema)

    def figures(self, index: int) -> dict[str, Any]:
        return drift_figures(self.plan, self.counters, index)


def drift_figures(plan: EmitOnDrift, counters: operator.Counters, index: int) -> dict[str, Any]:
    """The report of one query."""
    share = 1.0 - counters.violations[index] / max(counters.group_ticks[index], 1)
    return {
        "updates": int(counters.updates[index]),
        "initial": int(counters.initial[index]),
        "messages": int(counters.reported[index]),
        "reported": int(counters.reported[index]),
        "baseline": int(counters.baseline[index]),
        "violations": int(counters.violations[index]),
        "fidelity": float(min(share, counters.worst_share[index])),
        "max_error": float(counters.max_error[index]),
        "rejected": int(counters.rejected[index]),
    }


def drift_replay(context: Context, plan: EmitOnDrift, source: StreamInput, table: pa.Table | None) -> DriftResult:
    """Runs all ticks. table: the rows on the driver, with this plan's features as f0, f1, …; None: too many for it."""
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
    return DriftResult(plan, changes, state, operator.counters(state, counted), source.clock, schema, where, seconds)


def weights_runner(context: Context, plan: EmitOnDrift) -> operator.RunWeights:
    """Runs the weights query for some keys, on Spark, over the snapshots of the static tables."""
    spark = context.spark

    def run(keys: pa.Table) -> pa.Table:
        frames = {KEYS: spark.createDataFrame(keys), **parameters(spark, plan.group)}
        with temp_views(frames) as views:
            names = {**views, **context.tables.views(plan.weights.tables)}
            return run_query(spark, plan.weights.query, names).toArrow()

    return run


def constants_of(context: Context, plan: EmitOnDrift) -> dict[str, object]:
    """The constant columns beside a global aggregate."""
    outputs = {f"o{i}": o.expression for i, o in enumerate(plan.shape.outputs) if o.expression is not None}
    if plan.shape.groups or not outputs:
        return {}
    row = context.spark.range(1).select(*(F.expr(e.sql("spark")).alias(o) for o, e in outputs.items())).first()
    assert row is not None
    return row.asDict()


def _on_executors(
    context: Context, plan: EmitOnDrift, state: operator.State, source: StreamInput, run_weights: operator.RunWeights
) -> tuple[operator.Changes, list[tuple[NDArray, NDArray]]]:
    spark, stream = context.spark, plan.shape.stream
    key = [F.col(f"`{k}`") for k in stream.key]
    good = source.good().select(*key, TIME, SEQ, DELETED, *feature_columns(plan.features))
    keys = good.select(*key).distinct().toArrow()
    keys = keys.take(pc.sort_indices(keys, sort_keys=[(k, "ascending") for k in stream.key]))
    operator.learn(plan, state, keys, run_weights)
    of, ticks = operator.ticks_of(plan, source.times, source.clock)
    windows = source.clock.bucket(ticks, plan.group.first.promise.window)
    checked = _checked(context, plan, state, good, keys, source.times, of).persist()
    counts = checked.groupBy("item").agg(F.count_if("usable").alias("used"), F.count_if(~F.col("usable")).alias("bad"))
    counted = counts.toArrow()
    item = counted["item"].to_numpy()
    state.updates += operator.per_query(state, np.repeat(item, counted["used"].to_numpy()))
    state.rejected += operator.per_query(state, np.repeat(item, counted["bad"].to_numpy()))
    state.refused += int(counted["bad"].to_numpy().sum())
    latest = F.max_by(F.struct("deleted", *(f"f{i}" for i in range(len(plan.features)))), F.struct(TIME, SEQ)).alias("row")
    rows = checked.where("usable").groupBy("item", "tick").agg(latest)
    rows = rows.select("item", "tick", F.col("item").alias("key"), "row.*")
    blocks = max(spark.sparkContext.defaultParallelism, 1)
    try:
        return run_on_executors(plan, state, rows, windows, ticks, blocks)
    finally:
        checked.unpersist()


def _checked(
    context: Context, plan: EmitOnDrift, state: operator.State, good: DataFrame, keys: pa.Table, times: NDArray, of: NDArray
) -> DataFrame:
    """Rows with their item (numbered in key order) and tick; usable says whether their values can be summed."""
    spark = context.spark
    limits = operator.value_limits(plan, state)
    items = keys.append_column(ITEM, pa.array(np.arange(len(keys), dtype=np.int64)))
    for f in range(len(plan.features)):
        items = items.append_column(f"limit{f}", pa.array(limits[:, f]))
    ticks = pa.table({TIME: pa.array(times), "tick": pa.array(of.astype(np.int64))})
    joined = good.join(F.broadcast(spark.createDataFrame(items)), list(plan.shape.stream.key)).join(
        F.broadcast(spark.createDataFrame(ticks)), TIME
    )
    usable = F.lit(True)
    for f in range(len(plan.features)):
        value = F.col(f"f{f}")
        usable = usable & (value.isNull() | (~F.isnan(value) & (F.abs(value) < F.col(f"limit{f}"))))
    return joined.select(
        F.col(ITEM).alias("item"),
        "tick",
        TIME,
        SEQ,
        F.col(DELETED).alias("deleted"),
        (F.col(DELETED) | usable).alias("usable"),
        *(f"f{i}" for i in range(len(plan.features))),
    )
