"""AdaptiveFilter over bounded history, from an empty state: sites and coordinator in one kernel."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from deadband.compiler.physical import AdaptiveFilter
from deadband.runtime.answers import filter_table
from deadband.runtime.clock import Clock
from deadband.runtime.context import Context
from deadband.runtime.operators import adaptive_filter as operator
from deadband.runtime.operators.drift_replay import constants_of, weights_runner
from deadband.runtime.sources.batch import batch_of
from deadband.runtime.sources.frames import from_arrow, pandas_of
from deadband.runtime.sources.input import StreamInput

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
    assert table is not None
    batch = batch_of(table, plans[0].shape.stream.key, len(state.book.features))
    rows, ticks = operator.kernel_rows(state, batch, source.times, source.clock, weights)
    planned = time.perf_counter()
    emitted = operator.run(state.wiring, state.totals, rows, plans[0].method, None)
    run = FilterRun(state, operator.changes_of(emitted, ticks), operator.counters(state))
    seconds = {"weights": planned - started, "kernel": time.perf_counter() - planned}
    return [
        FilterResult(p, i, run, source.clock, schemas[i], "driver", seconds, source.until) for i, p in enumerate(plans)
    ]
