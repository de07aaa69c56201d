"""Streams that queries read together, live: rows wait until their tick closes, then every operator takes its steps.

A tick closes when, in every stream of the component, the largest event time seen less LATENESS has passed it. A row for
a closed tick is late: counted, given back as a dead letter, no part of truth. Everything that outlives a batch is in
State; a batch either happens as a whole (state, outputs) or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from deadband.compiler.catalog import Stream
from deadband.compiler.physical import EmitOnDrift, SparkExact
from deadband.runtime.clock import one_clock
from deadband.runtime.context import Context
from deadband.runtime.operators.drift_live import DriftLive
from deadband.runtime.operators.exact_live import ExactLive
from deadband.runtime.sources.batch import feature_columns, own_features, without_features
from deadband.runtime.sources.clean import DELETED, REJECT, SEQ, TIME, clean, schema_of

__all__ = ["Component", "Outcome", "State"]


@dataclass
class State:
    """What outlives a batch: rows that wait, how far time has come, the operators' states, the counters."""

    waiting: dict[str, pa.Table]  # per stream, rows of open ticks
    newest: dict[str, float | int | None]  # per stream, the largest event time seen
    operators: list[Any]
    done: list[float | int | None]  # per operator, times before this are answered
    closed: float | int | None = None  # times before this are closed
    seq: int = 0
    late: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a batch brought: changes per query, dead letters per stream, the last closed tick."""

    changes: dict[str, pd.DataFrame]
    dead: dict[str, pd.DataFrame]
    until: Any


class Component:
    """The operators of streams that are read together."""

    def __init__(self, context: Context, streams: list[Stream], plans: list[EmitOnDrift | SparkExact]):
        self.context = context
        self.streams = {s.name.lower(): s for s in streams}
        self.operators = [DriftLive(context, p) if isinstance(p, EmitOnDrift) else ExactLive(context, p) for p in plans]
        kinds = {s.name: schema_of(context.spark, s)[s.timestamp].dataType for s in streams}
        self.clock = one_clock(kinds, str(context.spark.conf.get("spark.sql.session.timeZone")))
        self.features: dict[str, dict] = {}
        for key in self.streams:
            used = [o.plan.features for o in self.operators if isinstance(o, DriftLive) and o.stream == key]
            distinct = dict.fromkeys(f for features in used for f in features)
            self.features[key] = {f: i for i, f in enumerate(distinct)}

    def new_state(self) -> State:
        return State(
            waiting={},
            newest=dict.fromkeys(self.streams),
            operators=[o.init() for o in self.operators],
            done=[None] * len(self.operators),
            late=dict.fromkeys(self.streams, 0),
            rejected=dict.fromkeys(self.streams, 0),
            rows=dict.fromkeys(self.streams, 0),
        )

    def attach(self, state: State) -> None:
        """A state that was saved has everything."""

    def shared(self, state: State, key: str) -> int:
        """Queries share nothing that is counted."""
        return 0

    def waiting(self, state: State) -> int:
        """How many rows of open ticks there are."""
        return sum(len(t) for t in state.waiting.values())

    def collect(self, frames: dict[str, DataFrame]) -> dict[str, pa.Table]:
        """The rows of a micro-batch on the driver, cleaned, with all features that operators ask for."""
        found = {}
        for key, frame in frames.items():
            rows = clean(frame, self.streams[key])
            found[key] = rows.select("*", *feature_columns(list(self.features[key]))).toArrow()
        return found

    def step(self, state: State, batch: dict[str, pa.Table]) -> Outcome:
        """Takes a batch in and answers the ticks that it closes; changes the state in place."""
        dead: dict[str, pd.DataFrame] = {}
        for key, table in batch.items():
            good, letters = self._admit(state, key, table)
            if len(letters):
                dead[key] = letters.to_pandas()
            before = state.waiting.get(key)
            state.waiting[key] = good if before is None else pa.concat_tables([before, good]).combine_chunks()
        self._close(state)
        changes: dict[str, pd.DataFrame] = {}
        for i, operator in enumerate(self.operators):
            until = self._answerable(state, operator)
            operator.refresh(state.operators[i])
            if until is None or state.done[i] == until:
                continue
            rows = {k: _between(t, state.done[i], until) for k, t in state.waiting.items() if k in operator.streams}
            times = np.unique(np.concatenate([t[TIME].to_numpy() for t in rows.values()])) if rows else np.zeros(0)
            if len(times):
                changes.update(operator.step(state.operators[i], self._renamed(operator, rows), times, self.clock))
            state.done[i] = until
        least = [d for d in state.done if d is not None]
        if len(least) == len(state.done):
            state.waiting = {k: _between(t, min(least), None) for k, t in state.waiting.items()}
        return Outcome(changes, dead, self.until(state))

    def until(self, state: State) -> Any:
        """The time up to which everything is closed, as users write it; None before the first."""
        if state.closed is None:
            return None
        return self.clock.values(np.array([state.closed])).iloc[0]

    def figures(self, state: State) -> dict[str, dict[str, Any]]:
        """The report of every query so far."""
        found = {}
        for operator, inner in zip(self.operators, state.operators, strict=True):
            for name, figures in operator.figures(inner).items():
                figures["late"] = sum(state.late[s] for s in operator.streams)
                figures["rejected"] = figures.get("rejected", 0) + sum(state.rejected[s] for s in operator.streams)
                found[name] = figures
        return found

    def _admit(self, state: State, key: str, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Good rows in source order, and the rows that are refused or late with the reason."""
        table = table.take(pc.sort_indices(table[SEQ]))
        table = table.set_column(
            table.schema.get_field_index(SEQ),
            SEQ,
            pa.array(np.arange(state.seq, state.seq + len(table), dtype=np.int64)),
        )
        state.seq += len(table)
        refused = table[REJECT]
        late = pa.array(np.zeros(len(table), bool))
        if state.closed is not None and len(table):
            late = pc.and_(pc.is_null(refused), pc.fill_null(pc.less(table[TIME], state.closed), False))
        state.late[key] += int(pc.sum(late).as_py() or 0)
        state.rejected[key] += len(table) - refused.null_count
        reason = pc.if_else(late, "late", refused)
        table = table.set_column(table.schema.get_field_index(REJECT), REJECT, reason)
        bad = pc.is_valid(reason)
        good = table.filter(pc.invert(bad)).drop_columns([REJECT])
        state.rows[key] += len(good)
        if len(good):
            newest = pc.max(good[TIME]).as_py()
            state.newest[key] = newest if state.newest[key] is None else max(newest, state.newest[key])
        letters = without_features(table.filter(bad))
        return good, letters.drop_columns([TIME, SEQ, DELETED])

    def _close(self, state: State) -> None:
        bounds = []
        for key, stream in self.streams.items():
            newest = state.newest[key]
            if newest is None:
                return  # a stream that has not begun holds the others back
            lateness = self.clock.width(stream.lateness)
            bounds.append(
                newest - (int(lateness) if isinstance(newest, int) and lateness == int(lateness) else lateness)
            )
        bound = min(bounds)
        state.closed = bound if state.closed is None else max(state.closed, bound)

    def _answerable(self, state: State, operator: DriftLive | ExactLive) -> float | int | None:
        """Times before this can be answered: EMIT EVERY waits for the end of its interval."""
        every = operator.plan.group.first.promise.emit_every
        if state.closed is None or every is None:
            return state.closed
        period = self.clock.width(every)
        return float(np.floor_divide(state.closed, period)) * period

    def _renamed(self, operator: DriftLive | ExactLive, rows: dict[str, pa.Table]) -> dict[str, pa.Table]:
        """An operator sees its own features, numbered from 0, and no others."""
        if not isinstance(operator, DriftLive):
            return {k: without_features(t) for k, t in rows.items()}
        stream = operator.stream
        return {stream: own_features(rows[stream], self.features[stream], operator.plan.features)}


def _between(table: pa.Table, first: float | int | None, last: float | int | None) -> pa.Table:
    time = table[TIME]
    keep = pa.array(np.ones(len(table), bool))
    if first is not None:
        keep = pc.and_(keep, pc.greater_equal(time, first))
    if last is not None:
        keep = pc.and_(keep, pc.less(time, last))
    return table.filter(keep)
