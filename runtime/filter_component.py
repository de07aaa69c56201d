"""PRECISION queries over one stream, live: rows stay where Spark has them, messages come to the driver.

Rows of open ticks and the state of the sites are a table in the checkpoint folder, a version for each batch, written by
Spark. The driver keeps what the coordinator knows, how far time has come, and how many rows wait at each time. A tick
closes when the largest event time seen less LATENESS has passed it; with a change rate it closes at once, and intervals
are padded by how far values may have moved unseen. Everything that outlives a batch is in State.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deadband.compiler.physical import AdaptiveFilter
from deadband.runtime.answers import filter_table
from deadband.runtime.clock import coarse, one_clock
from deadband.runtime.component import Outcome
from deadband.runtime.context import Context
from deadband.runtime.kernels.filter_live import Events, Sent
from deadband.runtime.operators import adaptive_filter as operator
from deadband.runtime.operators.drift_replay import constants_of, weights_runner
from deadband.runtime.operators.filter_change import change, refresh, sum_again
from deadband.runtime.operators.filter_composites import compose, composites_of
from deadband.runtime.operators.filter_history import history_of
from deadband.runtime.operators.filter_live import coordinate, no_events
from deadband.runtime.operators.filter_replay import filter_figures
from deadband.runtime.operators.filter_site_job import (
    BATCH,
    CHANGES,
    KIND,
    NUMBER,
    SITE,
    SITE_HASH,
    STATE,
    VALUES,
    Task,
    sent_of,
    site_job,
    site_schema,
)
from deadband.runtime.sources.batch import encoded, feature_columns
from deadband.runtime.sources.clean import DELETED, REJECT, SEQ, TIME, clean, ordinal, schema_of
from deadband.runtime.sources.frames import pandas_of, quoted
from deadband.runtime.sql import collected

__all__ = ["FilterComponent", "FilterState"]

KEPT = 2  # versions of the sites' table, as of snapshots


@dataclass
class FilterState:
    """What outlives a batch, on the driver."""

    filters: operator.State
    features: list[str]  # as the sites' table has them
    waiting: dict[float | int, int] = field(default_factory=dict)  # rows of open ticks, by event time
    newest: float | int | None = None  # the largest event time seen
    closed: float | int | None = None  # times before this are closed
    done: float | int | None = None  # times before this are answered
    ticks: int = 0
    batches: int = 0
    sites: int = -1  # version of the sites' table; -1: there is none
    open: int = -1  # version of the table of rows that wait
    counted: int = -1  # version of the sites' table whose arrivals are counted
    announce: bool = False  # every item tells all its values in the next tick
    events: Events = field(default_factory=no_events)  # width changes that sites have not heard of
    late: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    trips: int = 0
    passed: int = 0  # rows that came from sites to the driver


class FilterComponent:
    """One set of filters: sites on executors, coordinator on the driver."""

    def __init__(self, context: Context, plans: list[AdaptiveFilter], folder: Path):
        self.context = context
        self.stream = plans[0].shape.stream
        self.streams = {self.stream.name.lower(): self.stream}
        self._folder = folder / "sites"
        self._schema = schema_of(context.spark, self.stream)
        extra = [
            T.StructField(SEQ, T.LongType()),
            T.StructField(DELETED, T.BooleanType()),
            T.StructField(BATCH, T.LongType()),
        ]
        time = clean(context.spark.createDataFrame([], self._schema), self.stream).schema[TIME]
        self._row_schema = T.StructType([*self._schema.fields, T.StructField(TIME, time.dataType), *extra])
        self._schemas = [context.result_schema(p.group) for p in plans]
        zone = str(context.spark.conf.get("spark.sql.session.timeZone"))
        self.clock = one_clock({self.stream.name: self._schema[self.stream.timestamp].dataType}, zone)
        self._tables = context.tables.version
        self._use(plans)

    def _use(self, plans: list[AdaptiveFilter]) -> None:
        self.plans = plans
        self._schemas = [self.context.result_schema(p.group) for p in plans]
        self._weights = [weights_runner(self.context, p) for p in plans]

    def attach(self, state: FilterState) -> None:
        """A state that was saved: its plans are ours."""
        state.filters.book.attach(self.plans, operator.features_of(self.plans))

    def change(self, state: FilterState, plans: list[AdaptiveFilter]) -> None:
        """Other queries, or other bounds, from the next batch on."""
        self._use(plans)
        constants = [constants_of(self.context, p) for p in plans]
        state.announce |= change(state.filters, plans, constants, self._weights)

    def new_state(self) -> FilterState:
        name = self.stream.name.lower()
        filters = operator.init(self.plans, [constants_of(self.context, p) for p in self.plans])
        features = [f.sql("spark") for f in filters.book.features]
        return FilterState(filters, features, late={name: 0}, rejected={name: 0}, rows={name: 0})

    def collect(self, frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
        """Nothing comes to the driver here."""
        return frames

    def step(self, state: FilterState, frames: dict[str, DataFrame]) -> Outcome:
        """Takes a batch in and answers the ticks that it closes; changes the state in place."""
        (name,) = self.streams
        rows = clean(frames[name], self.stream).withColumn(BATCH, F.lit(state.batches).cast("bigint")).persist()
        try:
            first = self._first_open(state)
            dead = self._admit(state, rows)
            self._refresh(state)
            good = rows.where(F.col(REJECT).isNull())
            if first is not None:
                good = good.where(F.col(TIME) >= F.lit(first))
            until = self._close(state)
            times = np.array(sorted(t for t in state.waiting if until is not None and self._answers(state, t, until)))
            everything = good.drop(REJECT)
            if state.open >= 0:
                everything = self._read(state.open, self._row_schema, "rows").unionByName(everything)
            changes = self._answer(state, everything, times, until)
            state.batches += 1
            return Outcome(changes, dead, self.until(state))
        finally:
            rows.unpersist()

    def until(self, state: FilterState) -> Any:
        """The time up to which everything is closed, as users write it; None before the first."""
        return None if state.closed is None else self.clock.values(np.array([state.closed])).iloc[0]

    def figures(self, state: FilterState) -> dict[str, dict[str, Any]]:
        """The report of every query so far."""
        self._count_arrivals(state)
        counted, found, at = operator.counters(state.filters), {}, 0
        for plan in self.plans:
            for query in plan.group.queries:
                figures = filter_figures(counted, at)
                figures["late"] = sum(state.late.values())
                figures["rejected"] += sum(state.rejected.values())
                found[query.name] = figures
                at += 1
        return found

    def shared(self, state: FilterState, key: str) -> int:
        """What several queries count that was sent once."""
        counted = operator.counters(state.filters)
        return (
            int(getattr(counted, key).sum()) - counted.total[key] if key in counted.total and key != "violations" else 0
        )

    def waiting(self, state: FilterState) -> int:
        return sum(state.waiting.values())

    # what a batch brings

    def _admit(self, state: FilterState, rows: DataFrame) -> dict[str, pd.DataFrame]:
        """Counts the rows of a batch by event time; those refused or late come back as dead letters."""
        (name,) = self.streams
        first = self._first_open(state)
        late = F.lit(False) if first is None else F.col(TIME) < F.lit(first)
        late = F.coalesce(F.col(REJECT).isNull() & late, F.lit(False))
        reason = F.when(late, F.lit("late")).otherwise(F.col(REJECT)).alias(REJECT)
        marked = rows.select(*(F.col(quoted(c)) for c in rows.columns if c != REJECT), reason)
        counted = collected(marked.groupBy(TIME, REJECT).agg(F.count("*").alias("n")))
        refused = 0
        for at, why, n in zip(*(counted[c].to_pylist() for c in (TIME, REJECT, "n")), strict=True):
            if why == "late":
                state.late[name] += n
                refused += n
            elif why is not None:
                state.rejected[name] += n
                refused += n
            else:
                state.rows[name] += n
                state.waiting[at] = state.waiting.get(at, 0) + n
                state.newest = at if state.newest is None else max(at, state.newest)
        if not refused:
            return {}
        letters = marked.where(F.col(REJECT).isNotNull()).drop(TIME, SEQ, DELETED, BATCH)
        return {name: pandas_of(collected(letters), self.clock.timezone)}

    def _answers(self, state: FilterState, time: float | int, until: float | int) -> bool:
        """Whether a time is a tick to be answered: not one that only rows within LATENESS came for, afterwards."""
        return time < until and (state.done is None or time >= state.done)

    def _first_open(self, state: FilterState) -> float | int | None:
        """Rows before this are late. With a change rate ticks are answered early, and rows taken for LATENESS yet."""
        if self.stream.change_rate is None or state.done is None:
            return state.done
        return state.done - self.clock.width(self.stream.lateness)

    def _close(self, state: FilterState) -> float | int | None:
        """How far ticks are closed now; times before the answer can be answered."""
        if state.newest is None:
            return None
        padded = self.stream.change_rate is not None
        lateness = 0.0 if padded else self.clock.width(self.stream.lateness)
        whole = isinstance(state.newest, int) and lateness == int(lateness)
        bound = state.newest - (int(lateness) if whole else lateness)
        state.closed = bound if state.closed is None else max(state.closed, bound)
        every = self.plans[0].group.first.promise.emit_every
        if every is None:
            return state.closed
        period = self.clock.width(every)
        return float(np.floor_divide(state.closed, period)) * period

    def _refresh(self, state: FilterState) -> None:
        """A static table was refreshed: new weights from this batch on."""
        if self._tables != self.context.tables.version:
            self._tables = self.context.tables.version
            refresh(state.filters, self._weights)
            state.announce = True

    # the ticks that it closes

    def _answer(
        self, state: FilterState, everything: DataFrame, times: NDArray, until: float | int | None
    ) -> dict[str, pd.DataFrame]:
        if until is None or not len(times):
            self._save(state, None, everything)
            return {}
        closed, open_ = everything.where(F.col(TIME) < F.lit(until)), everything.where(F.col(TIME) >= F.lit(until))
        numbers = self._learn(state, closed)
        every = self.plans[0].group.first.promise.emit_every
        of, ticks = (np.arange(len(times)), times)
        if every is not None:
            of, ticks = coarse(times, self.clock.bucket(times, every))
        task = self._task(state, times, of, len(ticks), numbers)
        runs: list[DataFrame] = []

        def run_sites(events: Events, since: int) -> Sent:
            for run in runs:
                run.unpersist()
            runs[:] = [self._job(state, closed, task.again(events, since)).persist()]
            dropped = [*(f.name for f in SITE.fields), *self._schema.names]
            table = collected(runs[0].where(F.col(KIND) != STATE).drop(*dropped))
            state.passed += len(table)
            sent, refused = sent_of(table, task.features)
            self._refused = refused
            return sent

        history = history_of(state.filters.book, self.context.statistics.get(self.stream.name.lower()))
        found = coordinate(state.filters, len(ticks), state.events, run_sites, history)
        np.add.at(state.filters.refused, self._refused[:, 0], self._refused[:, 1])
        state.events, state.trips = found.later, state.trips + found.trips
        state.ticks += len(ticks)
        state.features = [f.sql("spark") for f in state.filters.book.features]
        state.announce = False
        state.waiting = {t: n for t, n in state.waiting.items() if t >= until}
        state.done = until
        self._save(state, runs[0], open_)
        runs[0].unpersist()
        return self._tables_of(state, operator.changes_of([found.emitted], ticks))

    def _learn(self, state: FilterState, closed: DataFrame) -> dict[tuple, int]:
        """Keys that are new in this batch come to the driver, once, and are wired."""
        key, book = list(self.stream.key), state.filters.book
        columns = [F.col(quoted(k)) for k in key]
        values = feature_columns(book.features)
        first = F.min_by(F.struct(*values), F.struct(TIME, BATCH, SEQ)).alias("first")
        keys = closed.groupBy(*columns).agg(first)
        if state.sites >= 0:
            known = self._read(state.sites, site_schema(self._schema), "sites")
            keys = keys.join(known.select(*columns), key, "left_anti")
        found = collected(keys.select(*columns, *(f"first.__f{i}" for i in range(len(book.features)))))
        if not len(found):
            return {}
        found = found.take(pa.array(encoded(found.select(key))[1]))
        features = [found[f"__f{i}"].fill_null(float("nan")).to_numpy() for i in range(len(book.features))]
        first_values = np.column_stack(features) if features else np.zeros((len(found), 0))
        numbers = operator.learn(state.filters, found.select(key), first_values, self._weights)
        if compose(state.filters, None) and state.sites >= 0:
            sum_again(state.filters)
            state.announce = True
        rows = zip(*(found[k].to_pylist() for k in key), strict=True)
        return dict(zip(rows, numbers.tolist(), strict=True))

    def _task(self, state: FilterState, times: NDArray, of: NDArray, ticks: int, numbers: dict[tuple, int]) -> Task:
        book, filters = state.filters.book, state.filters
        values = [s for s in book.slots if s[0] is not None]
        local = {s: k for k, s in enumerate(values)}
        slot = np.array([local.get(s, 0) for s in book.slots], np.uint64)
        used = np.zeros(len(book.number), np.uint64)
        np.bitwise_or.at(used, book.value["item"], np.uint64(1) << slot[book.value["slot"]])
        names = [f.sql("spark") for f in book.features]
        changed = state.sites >= 0 and (state.announce or names != state.features)
        old = np.array([state.features.index(n) if n in state.features else -1 for n in names]) if changed else None
        return Task(
            key=self.stream.key,
            columns=tuple(self._schema.names),
            features=len(names),
            slots=np.array(values, float).reshape(-1, 2),
            used=used,
            relevant=operator.relevant(filters),
            bits=operator.feature_bits(book),
            limits=operator.value_limits(filters).min(axis=0, initial=operator.HUGE),
            numbers=numbers,
            times=times,
            of=of,
            ticks=ticks,
            tick=state.ticks,
            method=operator.METHODS[self.plans[0].method],
            old=old,
            old_features=len(state.features),
            events=no_events(),
            composites=composites_of(book),
            tardy=self.stream.change_rate is not None,
        )

    def _job(self, state: FilterState, closed: DataFrame, task: Task) -> DataFrame:
        """The sites of all partitions: messages and new state."""
        features = feature_columns(state.filters.book.features)
        sites = self._read(state.sites, site_schema(self._schema), "sites")
        gone = F.lit(False) if self.stream.delete_when is None else F.expr(self.stream.delete_when)
        sites = sites.withColumn(DELETED, F.coalesce(gone, F.lit(False)))
        if self.stream.change_rate is not None:
            sites = sites.withColumn(
                TIME, ordinal(self._schema[self.stream.timestamp].dataType, F.col(quoted(self.stream.timestamp)))
            )
        shared = self.context.spark.sparkContext.broadcast(task)
        rows = self._placed(closed, sites if state.sites >= 0 else None)
        return site_job(rows.select("*", *features), sites.select("*", *features), self._schema, shared)

    def _placed(self, rows: DataFrame, sites: DataFrame | None) -> DataFrame:
        """Rows with the site of their key: what SOURCE BY said in its first row."""
        by = self.stream.source_by or self.stream.key
        own = F.xxhash64(*(F.col(quoted(c)) for c in by))
        if set(by) <= set(self.stream.key):
            return rows.withColumn(SITE_HASH, own)
        key = [F.col(quoted(k)) for k in self.stream.key]
        first = F.min_by(own, F.struct(TIME, BATCH, SEQ)).over(Window.partitionBy(*key))
        if sites is None:
            return rows.withColumn(SITE_HASH, first)
        known = sites.where(key[0].isNotNull()).select(*key, F.col(SITE_HASH).alias("__known"))
        placed = rows.join(known, list(self.stream.key), "left")
        return placed.withColumn(SITE_HASH, F.coalesce(F.col("__known"), first)).drop("__known")

    # the tables in the checkpoint folder

    def _read(self, version: int, schema: T.StructType, name: str) -> DataFrame:
        if version < 0:
            return self.context.spark.createDataFrame([], schema)
        return self.context.spark.read.schema(schema).parquet(str(self._folder / name / str(version)))

    def _write(self, version: int, frame: DataFrame, name: str) -> None:
        """A new version. The last snapshot may need the one before, which is old when batches closed no tick."""
        frame.write.mode("overwrite").parquet(str(self._folder / name / str(version)))
        versions = sorted(int(old.name) for old in (self._folder / name).glob("*") if old.name.isdigit())
        for old in versions[: -KEPT - 1]:
            shutil.rmtree(self._folder / name / str(old), ignore_errors=True)

    def _save(self, state: FilterState, run: DataFrame | None, open_: DataFrame) -> None:
        """The new versions: rows of open ticks, and what the sites know after the last run."""
        names = [quoted(f.name) for f in self._row_schema.fields]
        self._write(state.batches, open_.select(*names), "rows")
        state.open = state.batches
        if run is not None:
            kept = [quoted(f.name) for f in site_schema(self._schema).fields]
            self._write(state.batches, run.where(F.col(KIND) == STATE).select(*kept), "sites")
            state.sites = state.batches

    def _count_arrivals(self, state: FilterState) -> None:
        """How many values and rows have reached the sites: read from their table when somebody asks."""
        if state.counted == state.sites or state.sites < 0:
            return
        table = collected(self._read(state.sites, site_schema(self._schema), "sites").select(NUMBER, VALUES, CHANGES))
        totals, number = state.filters.totals, table[NUMBER].to_numpy()
        features = len(state.filters.book.features)
        if len(state.features) == features and len(number):
            values = np.array(table[VALUES].to_pylist(), np.int64).reshape(-1, features)
            totals.values[(number[:, None] * features + np.arange(features)).reshape(-1)] = values.reshape(-1)
            totals.changes[number] = table[CHANGES].to_numpy()
            state.filters.rows[number] = table[CHANGES].to_numpy()
        state.counted = state.sites

    def _tables_of(self, state: FilterState, changes: operator.Changes) -> dict[str, pd.DataFrame]:
        """The changes per query."""
        book, found = state.filters.book, {}
        plan, row = book.group["plan"][changes.group], book.group["row"][changes.group]
        for p in np.unique(plan):
            of_plan = np.flatnonzero(plan == p)
            query = book.groups[p].query[row[of_plan]]
            for index in np.unique(query):
                mine = of_plan[query == index]
                member = self.plans[p].group.queries[index]
                table = filter_table(self.plans[p], member, changes, book, p, mine, self.clock, self._schemas[p])
                found[member.name] = pandas_of(table, self.clock.timezone)
        return found
