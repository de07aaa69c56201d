"""Live: the queries under Structured Streaming, one StreamingQuery per component of streams that are read together.

foreachBatch brings the rows of all streams of a component tagged in one frame, so one batch id and one snapshot cover
them. Snapshot first, then deliver: a batch that Spark runs again after a crash finds its snapshot and delivers the same
output again. So state and file sinks (idempotent by batch) are exactly once, callbacks at least once.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError
from deadband.compiler.logical import Group
from deadband.compiler.lower import lower
from deadband.compiler.physical import AdaptiveFilter, Operator
from deadband.runtime.component import Component, Outcome
from deadband.runtime.context import Context
from deadband.runtime.filter_component import FilterComponent
from deadband.runtime.operators.filter_replay import filter_sets
from deadband.runtime.replay import unknown_query
from deadband.runtime.report import Report
from deadband.runtime.sink import write_batch
from deadband.runtime.snapshot import Snapshots
from deadband.runtime.sources.streaming import read_stream
from deadband.runtime.sql import first_line

__all__ = ["Running"]

TAG = "__stream"

Told = Callable[[str, pd.DataFrame, Any], object]  # query, changes, closed until


class Running:
    """Queries under way; stop() ends them, and start() on the same checkpoint goes on where they were."""

    def __init__(
        self,
        context: Context,
        groups: list[Group],
        frames: dict[str, Any],
        checkpoint: str,
        trigger: str | None,
        once: bool,
        told: Told,
    ):
        self._context, self._frames, self._told = context, frames, told
        self._checkpoint, self._trigger, self._once = Path(checkpoint), trigger, once
        self._changing, self._stopped = threading.Lock(), False
        plans = [lower(g).operator for g in groups]
        others = [p for p in plans if not isinstance(p, AdaptiveFilter)]
        self._parts = [self._part_of(members, f"component-{i}") for i, members in enumerate(_components(others))]
        self._parts += [self._part_of(*found) for found in _sets(plans)]
        for part in self._parts:
            part.start(trigger, once)

    def _part_of(self, plans: Sequence[Operator], folder: str) -> _Part:
        return _Part(self._context, list(plans), self._frames, self._checkpoint / folder, self._told)

    def change(self, groups: list[Group]) -> None:
        """Queries with PRECISION that came, went or were altered run so from the next batch on."""
        with self._changing:
            plans = [lower(g).operator for g in groups]
            wanted = {folder: members for members, folder in _sets(plans)}
            for part in [p for p in self._parts if p.filters]:
                if part.folder.name in wanted:
                    part.change(wanted.pop(part.folder.name))
                else:
                    part.stop()
                    part.forget()
                    self._parts.remove(part)
            for folder, members in wanted.items():
                part = self._part_of(members, folder)
                part.start(self._trigger, self._once)
                self._parts.append(part)

    def answers(self, name: str) -> pd.DataFrame:
        """The changes of a query since this start."""
        return self._part(name).answers(name)

    def metrics(self) -> dict[str, Any]:
        """Batches, rows that wait, how far time has come, and the report of every query."""
        return {"components": [p.metrics() for p in self._parts], "report": self.report()}

    def report(self) -> Report:
        queries: dict[str, dict[str, Any]] = {}
        for part in self._parts:
            queries.update(part.figures())
        total: dict[str, Any] = {}
        for key in ("initial", "messages", "control", "reported", "baseline", "violations"):
            if any(key in f for f in queries.values()):
                total[key] = sum(f.get(key, 0) for f in queries.values()) - sum(p.shared(key) for p in self._parts)
        for key, counted in (("updates", "rows"), ("late", "late"), ("rejected", "rejected")):
            total[key] = _once([getattr(p.state, counted) for p in self._parts])
        total["fidelity"] = min((f["fidelity"] for f in queries.values() if "fidelity" in f), default=1.0)
        total["max_error"] = max((f["max_error"] for f in queries.values() if "max_error" in f), default=0.0)
        return Report(queries, total)

    def await_idle(self) -> None:
        """Returns when everything that has arrived is processed; raises what a batch raised."""
        for part in self._parts:
            part.await_idle()

    def stop(self) -> None:
        """Ends the streams after the batch under way."""
        self._stopped = True
        for part in self._parts:
            part.stop()

    @property
    def active(self) -> bool:
        """Also when all queries were dropped: the next one that is created runs."""
        return not self._stopped and (not self._parts or any(p.is_active for p in self._parts))

    def _part(self, name: str) -> _Part:
        for part in self._parts:
            if name.lower() in part.names:
                return part
        raise unknown_query(name, [n for p in self._parts for n in p.names])


class _Part:
    """One component and its StreamingQuery."""

    def __init__(self, context: Context, plans: list[Operator], frames: dict[str, Any], folder: Path, told: Told):
        streams: dict[str, Stream] = {s.name.lower(): s for p in plans for s in p.group.first.body.streams}
        self._context = context
        self.folder = folder
        self._told = told
        self._sources = {k: read_stream(context.spark, s, frames.get(k)) for k, s in streams.items()}
        self._queries = {q.name.lower(): q for p in plans for q in p.group.queries}
        self.filters = isinstance(plans[0], AdaptiveFilter)
        self._component: Any = _component(context, list(streams.values()), plans, folder)
        self._snapshots = Snapshots(folder / "snapshots", _fingerprint(plans))
        self._answers: dict[str, list[pd.DataFrame]] = {n: [] for n in self._queries}
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self.query: StreamingQuery | None = None
        saved = self._snapshots.load()
        self._batch = -1 if saved is None else saved["batch"]
        self._outcome: Outcome | None = None if saved is None else saved["outcome"]
        self.state: Any = self._component.new_state() if saved is None else saved["state"]
        self._component.attach(self.state)

    @property
    def names(self) -> set[str]:
        return set(self._queries)

    def change(self, plans: list[AdaptiveFilter]) -> None:
        """Other queries of the same set of filters, from the next batch on."""
        with self._lock:
            self._component.change(self.state, plans)
            self._queries = {q.name.lower(): q for p in plans for q in p.group.queries}
            self._snapshots.fingerprint = _fingerprint(list(plans))
            if self._batch >= 0:  # so that a start before the next batch finds the queries as they are now
                self._snapshots.save(self._batch, {"state": self.state, "outcome": self._outcome})
            for name in self._queries:
                self._answers.setdefault(name, [])

    def forget(self) -> None:
        """No query is left: a set of this name begins anew. Dead letters stay."""
        for name in ("snapshots", "sites", "spark"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def is_active(self) -> bool:
        return self.query is not None and self.query.isActive

    def shared(self, key: str) -> int:
        """What queries of this part count more than once."""
        with self._lock:
            return self._component.shared(self.state, key)

    def start(self, trigger: str | None, once: bool) -> None:
        tagged = [f.select(F.lit(k).alias(TAG), F.struct("*").alias(k)) for k, f in self._sources.items()]
        union = tagged[0]
        for frame in tagged[1:]:
            union = union.unionByName(frame, allowMissingColumns=True)
        writer = union.writeStream.foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", str(self.folder / "spark"))
        if once:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        try:
            self.query = writer.start()
        except PySparkException as error:
            raise DeadbandError("the stream cannot start", detail=first_line(error)) from error

    def answers(self, name: str) -> pd.DataFrame:
        with self._lock:
            frames = list(self._answers[name.lower()])
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["ts", "diff"])

    def figures(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return self._component.figures(self.state)

    def metrics(self) -> dict[str, Any]:
        with self._lock:
            return {
                "streams": list(self._component.streams),
                "batch": self._batch,
                "closed_until": self._component.until(self.state),
                "waiting_rows": self._component.waiting(self.state),
                "late": dict(self.state.late),
                "rejected": dict(self.state.rejected),
            }

    def await_idle(self) -> None:
        assert self.query is not None
        try:
            self.query.processAllAvailable()
        except PySparkException as error:
            raise self._failed(error) from error
        failure = self.query.exception()
        if failure is not None:
            raise self._failed(failure)

    def stop(self) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()

    def _on_batch(self, frame: DataFrame, batch: int) -> None:
        try:
            self._take(frame, batch)
        except Exception as error:
            self._failure = error
            raise

    def _take(self, frame: DataFrame, batch: int) -> None:
        if batch > self._batch:
            if len(self._sources) > 1:
                frame = frame.persist()
            rows = {k: frame.where(F.col(TAG) == k).select(f"`{k}`.*") for k in self._sources}
            tables = self._component.collect(rows)
            if len(self._sources) > 1:
                frame.unpersist()
            with self._lock:
                self._outcome = self._component.step(self.state, tables)
                self._snapshots.save(batch, {"state": self.state, "outcome": self._outcome})
                self._batch = batch
        elif batch < self._batch or self._outcome is None:
            return
        self._deliver(self._outcome, batch)

    def _deliver(self, outcome: Outcome, batch: int) -> None:
        for name, query in self._queries.items():
            rows = outcome.changes.get(query.name)
            if rows is None and outcome.until is None:
                continue
            if rows is not None:
                with self._lock:
                    self._answers[name].append(rows)
                if query.into is not None:
                    write_batch(self._context, query, self._context.spark.createDataFrame(rows), batch)
            self._told(query.name, pd.DataFrame(columns=["ts", "diff"]) if rows is None else rows, outcome.until)
        for stream, letters in outcome.dead.items():
            path = self.folder / "dead" / stream / f"batch={batch}"
            path.mkdir(parents=True, exist_ok=True)
            letters.to_parquet(path / "rows.parquet")

    def _failed(self, error: Exception) -> DeadbandError:
        if isinstance(self._failure, DeadbandError):
            return self._failure
        return DeadbandError("the stream has failed", detail=first_line(self._failure or error))


def _once(counts: list[dict[str, int]]) -> int:
    """Rows of streams that several parts read, each counted once."""
    return sum(max(c.get(stream, 0) for c in counts) for stream in {s for c in counts for s in c})


def _component(context: Context, streams: list[Stream], plans: list[Operator], folder: Path) -> Any:
    filters = [p for p in plans if isinstance(p, AdaptiveFilter)]
    if filters:
        return FilterComponent(context, filters, folder)
    return Component(context, streams, [p for p in plans if not isinstance(p, AdaptiveFilter)])


def _sets(plans: Sequence[Operator]) -> list[tuple[list[AdaptiveFilter], str]]:
    """The sets of plans that share filters, each with a folder of its own."""
    found: list[tuple[list[AdaptiveFilter], str]] = []
    for number, members in enumerate(filter_sets([p for p in plans if isinstance(p, AdaptiveFilter)])):
        first = members[0]
        every = first.group.first.promise.emit_every
        name = f"filters-{first.shape.stream.name.lower()}-{first.method}{'' if every is None else f'-{every:g}'}"
        taken = {folder for _, folder in found}
        found.append((members, name if name not in taken else f"{name}-{number}"))
    return found


def _components(plans: Sequence[Operator]) -> list[list[Operator]]:
    """Plans that share streams, directly or through others, in order of their first plan."""
    parts: list[tuple[set[str], list[Operator]]] = []
    for plan in plans:
        streams = {s.name.lower() for s in plan.group.first.body.streams}
        mine, others = [plan], []
        for names, members in parts:
            if names & streams:
                streams, mine = streams | names, members + mine
            else:
                others.append((names, members))
        parts = [*others, (streams, mine)]
    return [members for _, members in parts]


def _fingerprint(plans: list[Operator]) -> str:
    """What a snapshot's state depends on: streams, bodies, promises."""
    parts: list[tuple] = []
    for query in (q for p in plans for q in p.group.queries):
        promise = query.promise
        bounds = [str(b) for b in promise.bounds]
        parts.append((query.name, query.body.query.sql("spark"), query.literals, bounds, query.body.streams))
        parts.append((promise.kind, promise.share, promise.window, promise.emit_every, promise.method))
    text = repr(parts)
    return hashlib.sha256(text.encode()).hexdigest()
