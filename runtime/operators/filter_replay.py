"""AdaptiveFilter over bounded history, from an empty state: sites and coordinator in one kernel."""

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

from deadband.compiler.lower.weights import ITEM
from deadband.compiler.physical import AdaptiveFilter
from deadband.compiler.planning.cost_curves import Curves
from deadband.runtime.answers import filter_table
from deadband.runtime.clock import Clock, coarse
from deadband.runtime.context import Context
from deadband.runtime.operators import adaptive_filter as operator
from deadband.runtime.operators.drift_blocks import TICK
from deadband.runtime.operators.drift_replay import USABLE, constants_of, weights_runner
from deadband.runtime.operators.filter_blocks import run_on_executors, run_on_threads
from deadband.runtime.operators.filter_composites import compose, moments_of, padded_history
from deadband.runtime.operators.filter_history import history_of
from deadband.runtime.operators.filter_wiring import RunWeights
from deadband.runtime.sources.batch import batch_of, encoded, feature_columns, feature_name
from deadband.runtime.sources.clean import DELETED, SEQ, TIME
from deadband.runtime.sources.frames import from_arrow, pandas_of, quoted
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sql import collected

__all__ = ["FilterResult", "filter_figures", "filter_replay", "filter_sets"]

MAX_FEATURES = 64  # bits of a presence mask


@dataclass(frozen=True)
class FilterRun:
    """One set of filters after all ticks."""

    state: operator.State
    changes: operator.Changes
    counters: operator.Counters


@dataclass(frozen=True)
class FilterResult:
    """The reports and counters of one group of queries; messages are shared with the other groups of its set."""

    plan: AdaptiveFilter
    number: int  # of the plan in the set
    run: FilterRun
    clock: Clock
    schema: T.StructType
    where: str
    seconds: dict[str, float]
    until: Any  # the last tick, as users write it; None: there was none

    def answers(self, index: int) -> pd.DataFrame:
        return pandas_of(self._table(index), self.clock.timezone)

    def frame(self, spark: SparkSession, index: int) -> DataFrame:
        """The answers on Spark, with the types of the query."""
        return from_arrow(spark, self._table(index))

    def _table(self, index: int) -> pa.Table:
        book, changes = self.run.state.book, self.run.changes
        mine = np.flatnonzero(book.group["plan"][changes.group] == self.number)
        row = book.group["row"][changes.group[mine]]
        groups = book.groups[self.number]
        mine = mine[groups.query[row] == index] if len(groups) else mine
        query = self.plan.group.queries[index]
        return filter_table(self.plan, query, changes, book, self.number, mine, self.clock, self.schema)

    def figures(self, index: int) -> dict[str, Any]:
        before = sum(len(p.group.queries) for p in self.run.state.book.plans[: self.number])
        return filter_figures(self.run.counters, before + index)


def filter_figures(counters: operator.Counters, query: int) -> dict[str, Any]:
    """The report of one query."""
    return {
        "updates": int(counters.updates[query]),
        "initial": int(counters.initial[query]),
        "messages": int(counters.messages[query]),
        "control": int(counters.control[query]),
        "reported": int(counters.reported[query]),
        "baseline": int(counters.baseline[query]),
        "violations": int(counters.violations[query]),
        "rejected": int(counters.rejected[query]),
    }


def filter_sets(plans: list[AdaptiveFilter]) -> list[list[AdaptiveFilter]]:
    """Plans that share filters: one stream, one method, ticks of one length, and features that fit a mask."""
    sets: dict[tuple, list[AdaptiveFilter]] = {}
    for plan in plans:
        key = (plan.shape.stream.name.lower(), plan.method, plan.group.first.promise.emit_every)
        part = 0
        while len(operator.features_of([*sets.get((*key, part), []), plan])) > MAX_FEATURES:
            part += 1
        sets.setdefault((*key, part), []).append(plan)
    return list(sets.values())


def filter_replay(
    context: Context, plans: list[AdaptiveFilter], source: StreamInput, table: pa.Table | None
) -> list[FilterResult]:
    """Runs all ticks of one set. table: the rows on the driver, with the features of the set."""
    started = time.perf_counter()
    schemas = [context.result_schema(p.group) for p in plans]
    state = operator.init(plans, [constants_of(context, p) for p in plans])
    weights = [weights_runner(context, p) for p in plans]
    known = context.statistics.get(plans[0].shape.stream.name.lower())
    if table is not None:
        batch = batch_of(table, plans[0].shape.stream.key, len(state.book.features))
        rows, ticks = operator.kernel_rows(state, batch, source.times, source.clock, weights)
        history = _composed(state, history_of(state.book, known))
        planned = time.perf_counter()
        changes = run_on_threads(state, rows, ticks, history, context.threads)
        where = "driver"
    else:
        found, ticks = _numbered(context, state, source, weights)
        history = _composed(state, history_of(state.book, known))
        planned = time.perf_counter()
        parallelism = context.spark.sparkContext.defaultParallelism
        changes = run_on_executors(state, found, ticks, history, parallelism)
        found.unpersist()
        where = "executors"
    run = FilterRun(state, changes, operator.counters(state))
    seconds = {"weights": planned - started, "kernel": time.perf_counter() - planned}
    return [
        FilterResult(p, i, run, source.clock, schemas[i], where, seconds, source.until) for i, p in enumerate(plans)
    ]


def _composed(state: operator.State, history: Curves | None) -> Curves | None:
    """Source aggregation where it is cheaper, and curves for what it made."""
    compose(state, None if history is None else moments_of(history))
    return padded_history(history, len(state.book.number) * len(state.book.features))


def _numbered(
    context: Context, state: operator.State, source: StreamInput, weights: list[RunWeights]
) -> tuple[DataFrame, NDArray]:
    """Rows on Spark with item and tick, each item once a tick, and the times of the ticks; refused ones counted."""
    book, stream = state.book, state.book.plans[0].shape.stream
    names = [feature_name(f) for f in range(len(book.features))]
    key = [F.col(quoted(k)) for k in stream.key]
    good = source.good().select(*key, TIME, SEQ, DELETED, *feature_columns(book.features))
    first = F.min_by(F.struct(*names), F.struct(TIME, SEQ)).alias("first")
    found = collected(good.groupBy(*key).agg(first).select(*key, *(f"first.{n}" for n in names)))
    found = found.take(pa.array(encoded(found.select(list(stream.key)))[1]))
    values = [found[n].fill_null(float("nan")).to_numpy() for n in names]
    keys = found.select(list(stream.key))
    operator.learn(state, keys, np.column_stack(values) if names else np.zeros((len(found), 0)), weights)
    every = book.plans[0].group.first.promise.emit_every
    of, ticks = np.arange(len(source.times)), source.times
    if every is not None:
        of, ticks = coarse(source.times, source.clock.bucket(source.times, every))
    used = np.flatnonzero(operator.relevant(state))
    items = keys.take(pa.array(used)).append_column(ITEM, pa.array(used.astype(np.int64)))
    limits = operator.value_limits(state)
    for f in range(len(names)):
        items = items.append_column(f"__limit{f}", pa.array(limits[used, f]))
    clock = pa.table({TIME: pa.array(source.times), TICK: pa.array(of.astype(np.int64))})
    rows = good.join(F.broadcast(from_arrow(context.spark, items)), list(stream.key))
    rows = rows.join(F.broadcast(from_arrow(context.spark, clock)), TIME)
    usable = F.lit(True)
    for f, name in enumerate(names):
        usable = usable & (F.col(name).isNull() | (~F.isnan(name) & (F.abs(name) < F.col(f"__limit{f}"))))
    rows = rows.withColumn(USABLE, F.col(DELETED) | usable)
    counted = rows.groupBy(ITEM).agg(F.count_if(USABLE).alias("good"), F.count_if(~F.col(USABLE)).alias("bad"))
    figures = collected(counted)
    state.rows[figures[ITEM]], state.refused[figures[ITEM]] = figures["good"], figures["bad"]
    last = F.max_by(F.struct(DELETED, *names), F.struct(TIME, SEQ)).alias("row")
    once = rows.where(USABLE).groupBy(ITEM, TICK).agg(last).select(ITEM, TICK, "row.*")
    return once.persist(), ticks
