"""Replay: every registered query over bounded history, from an empty state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError, did_you_mean
from deadband.compiler.logical import Group
from deadband.compiler.lower import lower
from deadband.compiler.physical import AdaptiveFilter, EmitOnDrift, Operator, SparkExact
from deadband.runtime.context import Context
from deadband.runtime.operators import adaptive_filter
from deadband.runtime.operators.drift_replay import DriftResult, drift_replay
from deadband.runtime.operators.exact_replay import ExactResult, exact_replay
from deadband.runtime.operators.filter_replay import FilterResult, filter_replay, filter_sets
from deadband.runtime.report import Report
from deadband.runtime.sink import write_batch
from deadband.runtime.sources.batch import own_features
from deadband.runtime.sources.input import StreamInput

__all__ = ["Run", "replay"]

Result: TypeAlias = DriftResult | FilterResult | ExactResult
Progress = Callable[[str, int, int], object]  # what, done, total


class Run:
    """A finished replay: answers and report of every query."""

    def __init__(self, results: list[Result], rejected: dict[str, int], rows: dict[str, int]):
        """rejected, rows: per stream, how many rows were refused when they were read, and how many were not."""
        self._where: dict[str, tuple[Result, int]] = {}
        for result in results:
            for index, query in enumerate(result.plan.group.queries):
                self._where[query.name.lower()] = (result, index)
        self._results = results
        self._rejected = rejected
        self._rows = rows

    def answers(self, name: str) -> pd.DataFrame:
        """The changes of a query: ts, diff, its columns, and low and high where it has a bound."""
        result, index = self._find(name)
        return result.answers(index)

    def report(self) -> Report:
        """What was counted, per query and in total."""
        queries: dict[str, dict[str, Any]] = {}
        for result, index in self._where.values():
            query = result.plan.group.queries[index]
            figures = result.figures(index)
            refused = sum(self._rejected[s.name.lower()] for s in query.body.streams)
            figures["late"] = 0  # a replay merges by event time: nothing comes late
            figures["rejected"] = figures.get("rejected", 0) + refused
            queries[query.name] = figures
        return Report(queries, self._total(queries))

    def until(self, name: str) -> Any:
        """The last tick of a query, as users write it; None where there was none."""
        return self._find(name)[0].until

    def where(self, name: str) -> str:
        """Where a query's work ran: driver or executors."""
        return self._find(name)[0].where

    def seconds(self, name: str) -> dict[str, float]:
        """How long the parts of a query's work took; queries of one group share it."""
        return self._find(name)[0].seconds

    def _total(self, queries: dict[str, dict[str, Any]]) -> dict[str, Any]:
        updates, refused = zip(*map(self._relevant, self._rows)) if self._rows else ((), ())
        total: dict[str, Any] = {"updates": sum(updates)}
        for key in ("initial", "messages", "control", "reported", "baseline", "violations", "late"):
            if any(key in f for f in queries.values()):
                total[key] = sum(f.get(key, 0) for f in queries.values())
        for key in ("initial", "messages", "control", "baseline"):
            if key in total:
                total[key] -= self._shared(key)
        total["fidelity"] = min((f["fidelity"] for f in queries.values() if "fidelity" in f), default=1.0)
        total["max_error"] = max((f["max_error"] for f in queries.values() if "max_error" in f), default=0.0)
        total["rejected"] = sum(self._rejected.values()) + sum(refused)
        return total

    def _shared(self, key: str) -> int:
        """What queries that share filters count more than once."""
        runs = {id(r.run): r.run.counters for r in self._results if isinstance(r, FilterResult)}
        return sum(int(getattr(c, key).sum()) - c.total[key] for c in runs.values())

    def _relevant(self, stream: str) -> tuple[int, int]:
        """Rows of a stream that some query uses, and that none can sum, each once: all replays number items by key."""
        readers = [r for r in self._results if stream in (s.name.lower() for s in r.plan.group.first.body.streams)]
        drifts = [(r.state.used, r.state.refused) for r in readers if isinstance(r, DriftResult)]
        filters = [(r.run.state.rows, r.run.state.refused) for r in readers if isinstance(r, FilterResult)]
        kept = drifts + filters
        refused = int(np.max([r for _, r in kept], axis=0).sum()) if kept else 0
        if len(kept) < len(readers):
            return self._rows[stream], refused
        return int(np.max([u for u, _ in kept], axis=0).sum()), refused

    def _find(self, name: str) -> tuple[Result, int]:
        if name.lower() not in self._where:
            raise unknown_query(name, [q.name for r in self._results for q in r.plan.group.queries])
        return self._where[name.lower()]


def unknown_query(name: str, known: list[str]) -> DeadbandError:
    return DeadbandError(f"unknown continuous query {name}", hint=did_you_mean(name, known))


def replay(
    context: Context, groups: list[Group], frames: dict[str, Any], progress: Progress | None = None, sinks: bool = True
) -> Run:
    """Runs all groups over the frames given and, for the other streams, over their own sources."""
    plans = [lower(g).operator for g in groups]
    streams: dict[str, Stream] = {s.name.lower(): s for g in groups for s in g.first.body.streams}
    shared = {s.name.lower() for p in plans if isinstance(p, SparkExact) for s in p.streams}
    sources = {
        k: StreamInput(context.spark, s, frames.get(k), once=k not in shared and context.driver_rows > 0)
        for k, s in streams.items()
    }
    tell = progress or (lambda what, done, total: None)
    try:
        results: list[Result] = []
        tables = _collected(context, plans, sources, tell)
        filters = filter_sets([p for p in plans if isinstance(p, AdaptiveFilter)])
        for number, plan in enumerate(plans):
            name = _called(plan.group)
            tell(name, number, len(plans))
            if isinstance(plan, AdaptiveFilter):
                (together,) = [s for s in filters if any(p is plan for p in s)]
                if together[0] is plan:
                    stream = plan.shape.stream.name.lower()
                    features = adaptive_filter.features_of(together)
                    own = own_features(*tables[stream], features) if stream in tables else None
                    results += filter_replay(context, together, sources[stream], own)
            elif isinstance(plan, EmitOnDrift):
                stream = plan.shape.stream.name.lower()
                own = own_features(*tables[stream], plan.features) if stream in tables else None
                results.append(drift_replay(context, plan, sources[stream], own))
            else:
                ticks = lambda done, total, name=name: tell(f"{name}: tick", done, total)  # noqa: E731
                results.append(exact_replay(context, plan, sources, ticks))
        tell("done", len(plans), len(plans))
        rejected = {k: sum(s.rejected.values()) for k, s in sources.items()}
        run = Run(results, rejected, {k: s.rows - rejected[k] for k, s in sources.items()})
        for result in results:
            for index, query in enumerate(result.plan.group.queries):
                if query.into is not None and sinks:
                    write_batch(context, query, result.frame(context.spark, index), 0)
        return run
    finally:
        for source in sources.values():
            source.close()


def _collected(
    context: Context, plans: list[Operator], sources: dict[str, StreamInput], tell: Progress
) -> dict[str, tuple[pa.Table, dict]]:
    """Rows of the streams that are small enough for the driver, with the numbered features of all plans together."""
    found: dict[str, tuple[pa.Table, dict]] = {}
    for stream, source in sources.items():
        used = [p for p in plans if not isinstance(p, SparkExact) and p.shape.stream.name.lower() == stream]
        filters = [p for p in used if isinstance(p, AdaptiveFilter)]
        features = dict.fromkeys(f for p in used for f in p.features)
        features |= dict.fromkeys(adaptive_filter.features_of(filters) if filters else ())
        if used and source.fits(context.driver_rows):
            tell(f"reading {source.stream.name}", 0, 1)
            found[stream] = source.collect(list(features)), {f: i for i, f in enumerate(features)}
    return found


def _called(group: Group) -> str:
    name = group.first.name
    return name if len(group.queries) == 1 else f"{name} and {len(group.queries) - 1} more"
