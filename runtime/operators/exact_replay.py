"""SparkExact over bounded history, from an empty state."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from deadband.compiler.bind.template import QUERY
from deadband.compiler.errors import DeadbandError
from deadband.compiler.lower.as_of import TICK
from deadband.compiler.physical import SparkExact
from deadband.runtime.clock import Clock, coarse, one_clock
from deadband.runtime.context import Context, parameters
from deadband.runtime.operators.spark_exact import changes
from deadband.runtime.sources.clean import SEQ, TIME
from deadband.runtime.sources.frames import from_arrow
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sql import SPARK_ERRORS, first_line, temp_views

__all__ = ["ExactResult", "exact_replay", "ticked"]


@dataclass(frozen=True)
class ExactResult:
    """The changes of one group of queries, on Spark, and what was counted of them."""

    plan: SparkExact
    changes: DataFrame  # TICK, diff, the query's columns (and QUERY when folded)
    times: NDArray
    clock: Clock
    updates: int
    counts: dict[int, tuple[int, int]]  # query -> (rows at its first tick, all rows)
    seconds: dict[str, float]
    until: Any  # the last tick, as users write it; None: there was none
    where: str = "executors"

    def answers(self, index: int) -> pd.DataFrame:
        with _running(self.plan):
            return exact_frame(self._changes_of(index).toPandas(), self.plan, index, self.times, self.clock)

    def frame(self, spark: SparkSession, index: int) -> DataFrame:
        """The answers on Spark, with the types of the query."""
        ticks = pa.table({TICK: pa.array(np.arange(len(self.times))), "__ts": self.clock.column(self.times)})
        names = self.plan.group.queries[index].body.columns
        mine = self._changes_of(index).toDF(TICK, "__diff", *(f"__{i}" for i in range(len(names))))
        columns = [F.col("__ts").alias("ts"), F.col("__diff").alias("diff")]
        columns += [F.col(f"__{i}").alias(name) for i, name in enumerate(names)]
        return mine.join(F.broadcast(from_arrow(spark, ticks)), TICK).select(*columns)

    def _changes_of(self, index: int) -> DataFrame:
        if QUERY in self.changes.columns:
            return self.changes.where(F.col(QUERY) == index).drop(QUERY)
        return self.changes

    def figures(self, index: int) -> dict[str, Any]:
        initial, rows = self.counts.get(index, (0, 0))
        return {
            "updates": self.updates,
            "initial": initial,
            "messages": rows - initial,
            "reported": rows - initial,
            "baseline": rows - initial,
            "violations": 0,
            "fidelity": 1.0,
            "max_error": 0.0,
        }


def exact_frame(frame: pd.DataFrame, plan: SparkExact, index: int, times: NDArray, clock: Clock) -> pd.DataFrame:
    """Changes as users see them: ts, diff, columns in the query's spelling, in order."""
    names = plan.group.queries[index].body.columns
    frame = frame.sort_values(by=[TICK, "diff"], kind="stable", ignore_index=True)
    ts = clock.values(times[frame[TICK].to_numpy(np.int64)])
    values = frame.drop(columns=[TICK, "diff"])
    found = pd.concat([ts, frame["diff"].astype(np.int32), values], axis=1)
    found.columns = ["ts", "diff", *names]
    return found


def exact_replay(
    context: Context,
    plan: SparkExact,
    sources: dict[str, StreamInput],
    progress: Callable[[int, int], object] | None = None,
) -> ExactResult:
    """Runs all ticks of the plan's streams."""
    started = time.perf_counter()
    inputs = {s.name.lower(): sources[s.name.lower()] for s in plan.streams}
    timezone = next(iter(inputs.values())).clock.timezone
    clock = one_clock({i.stream.name: i.clock.kind for i in inputs.values()}, timezone)
    times = np.unique(np.concatenate([i.times for i in inputs.values()]))
    of, ticks = np.arange(len(times)), times
    every = plan.group.first.promise.emit_every
    if every is not None:
        of, ticks = coarse(times, clock.bucket(times, every))
    frames = {name: ticked(context, i.good(), times, of) for name, i in inputs.items()}
    keys = {name: list(i.stream.key) for name, i in inputs.items()}
    with _running(plan), temp_views(parameters(context.spark, plan.group)) as views:
        names = {**views, **context.tables.views(plan.tables)}
        found = changes(context.spark, plan.as_of, frames, keys, len(ticks), progress=progress, views=names)
        counts = _counts(found)
    updates = sum(i.rows - sum(i.rejected.values()) for i in inputs.values())
    seconds = {"spark": time.perf_counter() - started}
    until = clock.values(times[-1:]).iloc[0] if len(times) else None
    return ExactResult(plan, found, ticks, clock, updates, counts, seconds, until)


def ticked(context: Context, rows: DataFrame, times: NDArray, of: NDArray) -> DataFrame:
    """Rows with their tick; source order within a coarse tick follows time first."""
    table = pa.table(
        {TIME: pa.array(times), TICK: pa.array(of.astype(np.int64)), "__at": pa.array(np.arange(len(times)))}
    )
    joined = rows.join(F.broadcast(from_arrow(context.spark, table)), TIME)
    if len(times) and of[-1] + 1 < len(times):
        order = Window.partitionBy(TICK).orderBy("__at", SEQ)
        joined = joined.withColumn(SEQ, F.row_number().over(order).cast("bigint"))
    return joined.drop(TIME, "__at")


@contextlib.contextmanager
def _running(plan: SparkExact) -> Iterator[None]:
    """What Spark says of a query while it runs, as our error."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise DeadbandError(f"{plan.group.first.name} failed on Spark", detail=first_line(error)) from error


def _counts(found: DataFrame) -> dict[int, tuple[int, int]]:
    """Rows per query: at its first tick, and in all."""
    query = F.col(QUERY) if QUERY in found.columns else F.lit(0).alias(QUERY)
    per_tick = found.groupBy(query.alias("query"), TICK).count()
    first = per_tick.groupBy("query").agg(F.min_by("count", TICK).alias("first"), F.sum("count").alias("all"))
    return {r["query"]: (r["first"], r["all"]) for r in first.collect()}
