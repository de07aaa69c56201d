"""Connection: statements in, answers out, on one SparkSession."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from deadband.compiler import ast
from deadband.compiler.catalog import SETTINGS, Catalog, Stream
from deadband.compiler.errors import DeadbandError, Source, did_you_mean
from deadband.compiler.explain import Plan
from deadband.compiler.logical import Query
from deadband.compiler.parse import parse
from deadband.compiler.program import Program
from deadband.runtime.context import Context
from deadband.runtime.replay import Progress, Run, replay, unknown_query
from deadband.runtime.session import local_session
from deadband.runtime.sink import check_sink
from deadband.runtime.sources.analyze import analyze
from deadband.runtime.sources.frames import as_frame, quoted
from deadband.runtime.sources.item_statistics import SUMMARY, load_statistics
from deadband.runtime.sources.statistics import statistics_of
from deadband.runtime.sql import SPARK_ERRORS, absolute_paths, first_line
from deadband.runtime.tables import StaticTables, table_name

__all__ = ["Connection"]

OnChange = Callable[[Any, dict, int], object]  # ts, row, diff
OnProgress = Callable[[Any], object]  # ts up to which everything has been told


class Connection:
    """Runs statements; a context manager. Its own local SparkSession unless one is given."""

    def __init__(self, spark: SparkSession | None = None, *, driver_rows: int | None = None, **settings: Any):
        self._own = spark is None
        self._folder = tempfile.mkdtemp(prefix="deadband-") if self._own else None
        if spark is None:
            spark = local_session(**{"spark.sql.warehouse.dir": f"{self._folder}/warehouse", **settings})
        elif settings:
            raise DeadbandError("Spark settings go to the session that is given", detail=", ".join(settings))
        self.spark = spark
        self._catalog = Catalog(find_table=self._columns_of)
        self._program = Program(self._catalog)
        self._context = Context(spark, StaticTables(spark))
        if driver_rows is not None:
            self._context.driver_rows = driver_rows
        self._subscribers: dict[str, list[tuple[OnChange, OnProgress | None]]] = {}
        self._live: list = []

    # ---------------------------------------------------------------- statements

    def register(self, name: str, frame: Any) -> None:
        """A static table from a pandas, pyarrow or Spark frame."""
        if name.lower() in self._catalog.streams:
            raise DeadbandError(f"{name} is a stream; its rows are given to replay or start")
        as_frame(self.spark, frame, name).createOrReplaceTempView(quoted(name))
        self._table_changed(name)

    def sql(self, text: str, name: str = "<sql>") -> DataFrame | Plan | None:
        """Runs statements; gives the last one's result."""
        result: DataFrame | Plan | None = None
        for statement in parse(text, name):
            result = self.execute(statement)
        return result

    def execute(self, statement: ast.Statement) -> DataFrame | Plan | None:
        """Runs one parsed statement."""
        if isinstance(statement, ast.Explain):
            return self._explain(statement)
        if isinstance(statement, ast.CreateQuery):
            self._prepare(statement)
        before = dict(self._program.queries)
        self._program.add(statement)
        if self._program.queries != before:
            self._change(before, statement)
        if isinstance(statement, ast.SparkSql):
            return self._spark_sql(statement)
        if isinstance(statement, ast.RefreshTable):
            self.refresh_table(statement.table.text)
        if isinstance(statement, ast.Show):
            return self._show(statement)
        if isinstance(statement, ast.AnalyzeStream):
            return self._analyze(statement)
        if isinstance(statement, ast.Drop) and statement.kind == "STREAM":
            self._context.statistics.pop(statement.name.key, None)
        return None

    def explain(self, text_or_name: str) -> Plan:
        """The plan of a registered query, of a SELECT with clauses, or of a CREATE CONTINUOUS QUERY."""
        if text_or_name.lower() in self._program.queries:
            span = Source("<sql>", text_or_name).span(0, len(text_or_name))
            target: Any = ast.Name(text_or_name, span)
            return self._explain(ast.Explain(target, False, "TEXT", False, span))
        text = text_or_name if text_or_name.lstrip()[:7].upper() == "EXPLAIN" else f"EXPLAIN {text_or_name}"
        words = text_or_name.split()
        if len(words) == 1:
            raise unknown_query(text_or_name, [q.name for q in self._program.queries.values()])
        statements = parse(text)
        if len(statements) != 1 or not isinstance(statements[0], ast.Explain):
            raise DeadbandError("explain takes one query", hint="a name, SELECT … or CREATE CONTINUOUS QUERY …")
        return self._explain(statements[0])

    def statistics(self, stream: str) -> DataFrame:
        """What ANALYZE STREAM found, or what was loaded: a row per key and feature, to look at or to save."""
        name = self._stream(stream).name
        if name.lower() not in self._context.statistics:
            raise DeadbandError(f"{name} has not been analysed", hint=f"ANALYZE STREAM {name} does it")
        return self._context.statistics[name.lower()].frame(self.spark)

    def load_statistics(self, stream: str, frame: Any) -> None:
        """Statistics that were saved, as a pandas, pyarrow or Spark frame; they replace what was analysed."""
        found = self._stream(stream)
        self._context.statistics[stream.lower()] = load_statistics(self.spark, found, frame)

    def refresh_table(self, table: str) -> None:
        """REFRESH TABLE: the next replay, and running streams at their next batch, see the table as it is now."""
        try:
            self.spark.catalog.refreshTable(table_name(table))
        except SPARK_ERRORS as error:
            raise DeadbandError(f"{table} cannot be refreshed", detail=first_line(error)) from error
        self._context.tables.forget(table)

    # ---------------------------------------------------------------- running

    def replay(self, frames: dict[str, Any] | None = None, progress: bool | Progress = False) -> Run:
        """Every registered query over bounded history; streams without a frame replay their own source."""
        given = self._frames(frames)
        if not self._program.queries:
            raise DeadbandError("there is no continuous query to run", hint="CREATE CONTINUOUS QUERY … first")
        groups = self._program.groups()
        if progress is True:
            from deadband.runtime.progress import bar

            with bar() as tell:
                run = replay(self._context, groups, given, tell)
        else:
            run = replay(self._context, groups, given, progress or None)
        self._tell_replay(run)
        return run

    def start(
        self, checkpoint: str, trigger: str | None = None, frames: dict[str, Any] | None = None, once: bool = False
    ) -> Any:
        """Runs the queries live under Structured Streaming; see runtime/live.py."""
        from deadband.runtime.live import Running

        groups = self._program.groups()
        if not groups:
            raise DeadbandError("there is no continuous query to run", hint="CREATE CONTINUOUS QUERY … first")
        running = Running(self._context, groups, self._frames(frames), checkpoint, trigger, once, self._told)
        self._live.append(running)
        return running

    def subscribe(self, name: str, on_change: OnChange, on_progress: OnProgress | None = None) -> None:
        """Calls on_change(ts, row, diff) for every change of a query, replayed or live; on_progress(ts) for silence."""
        if name.lower() not in self._program.queries:
            raise unknown_query(name, [q.name for q in self._program.queries.values()])
        self._subscribers.setdefault(name.lower(), []).append((on_change, on_progress))

    def close(self) -> None:
        """Stops what runs; a session of our own ends with it."""
        for running in self._live:
            running.stop()
        self._context.tables.close()
        if self._own:
            self.spark.stop()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- helpers

    @property
    def queries(self) -> list[str]:
        """The names of the registered queries."""
        return [q.name for q in self._program.queries.values()]

    def plans(self, statistics: bool = False) -> list[Plan]:
        """The plans of all registered queries; with statistics, streams that have a source are counted first."""
        if not statistics:
            return self._program.plans()
        return self._program.plans(lambda group: statistics_of(self._context, group))

    def _prepare(self, statement: ast.CreateQuery) -> None:
        """What can fail of a new query fails before it is registered; its static tables are read now, as they are."""
        if statement.if_not_exists and statement.name.key in self._program.queries:
            return
        query = self._program.bind(statement.name.text, statement.query)
        check_sink(self._context, query)
        self._context.tables.views(query.body.tables)

    def _change(self, before: dict[str, Query], statement: ast.Statement) -> None:
        """Running streams take changes of PRECISION queries at their next batch; others need a new start."""
        running = [r for r in self._live if r.active]
        if not running:
            return
        now = self._program.queries
        changed = [q for n in {**before, **now} for q in (before.get(n), now.get(n)) if before.get(n) is not now.get(n)]
        if any(q is not None and q.promise.kind != "PRECISION" for q in changed):
            self._program.queries = before
            raise DeadbandError(
                "only queries with PRECISION can be created, altered or dropped while streams run",
                statement.span,
                hint="stop the streams first, and start them with a new checkpoint folder",
            )
        for one in running:
            one.change(self._program.groups())

    def _explain(self, statement: ast.Explain) -> Plan:
        plan = self._program.explained(statement, lambda group: statistics_of(self._context, group))
        if not statement.analyze:
            return plan
        run = replay(self._context, [plan.choice.operator.group], {}, sinks=False)
        measured = dict(run.report()[plan.name])
        measured["where"] = run.where(plan.name)
        return plan.with_measured(measured)

    def _analyze(self, statement: ast.AnalyzeStream) -> DataFrame:
        """Keeps the statistics of a stream's items, and shows them summed up."""
        stream, query = self._catalog.stream(statement.stream), self._program.history(statement)
        found = analyze(self._context, stream, query, [g.first.shape for g in self._program.groups()])
        self._context.statistics[statement.stream.key] = found
        return self.spark.createDataFrame(found.summary(), SUMMARY)

    def _spark_sql(self, statement: ast.SparkSql) -> DataFrame:
        try:
            result = self.spark.sql(absolute_paths(statement.sql.text))
        except SPARK_ERRORS as error:
            raise DeadbandError("Spark cannot run this statement", statement.span, detail=first_line(error)) from error
        for name in list(self._catalog.tables):  # what Spark knows of tables is newer than what the text told
            self._catalog.forget_table(name)
        return result

    def _show(self, statement: ast.Show) -> DataFrame:
        if statement.what == "STREAMS":
            rows: list[tuple] = [
                (s.name, ", ".join(s.key), s.timestamp, s.lateness, s.format or "frames")
                for s in self._catalog.streams.values()
            ]
            return self.spark.createDataFrame(
                rows, "stream string, key string, time string, lateness_s double, source string"
            )
        if statement.what == "STATISTICS":
            rows = [row for found in self._context.statistics.values() for row in found.summary()]
            return self.spark.createDataFrame(rows, SUMMARY)
        if statement.what == "SETTINGS":
            rows = [(k, v, ", ".join(SETTINGS[k])) for k, v in self._catalog.settings.items()]
            return self.spark.createDataFrame(rows, "setting string, value string, values string")
        rows = [(p.name, p.query.shape.name, p.tree.op, p.guarantee) for p in self._program.plans()]
        return self.spark.createDataFrame(rows, "query string, shape string, operator string, promise string")

    def _columns_of(self, name: str) -> dict[str, str] | None:
        try:
            if self.spark.catalog.tableExists(table_name(name)):
                return {f.name: f.dataType.simpleString() for f in self.spark.table(table_name(name)).schema.fields}
        except PySparkException:
            return None  # a name that Spark cannot parse names no table
        return None

    def _table_changed(self, name: str) -> None:
        self._catalog.forget_table(name)
        self._context.tables.forget(name)

    def _frames(self, frames: dict[str, Any] | None) -> dict[str, Any]:
        return {self._stream(name).name.lower(): frame for name, frame in (frames or {}).items()}

    def _stream(self, name: str) -> Stream:
        if name.lower() not in self._catalog.streams:
            known = [s.name for s in self._catalog.streams.values()]
            raise DeadbandError(f"unknown stream {name}", hint=did_you_mean(name, known) or "CREATE STREAM it first")
        return self._catalog.streams[name.lower()]

    def _tell_replay(self, run: Run) -> None:
        for name in self._subscribers:
            if name in self._program.queries:
                self._told(name, run.answers(name), run.until(name))

    def _told(self, name: str, rows: pd.DataFrame, until: Any) -> None:
        """Tells subscribers of a query about changes and about how far time has come."""
        for on_change, on_progress in self._subscribers.get(name.lower(), ()):
            columns = [c for c in rows.columns if c not in ("ts", "diff")]
            for record in rows.to_dict("records"):
                on_change(record["ts"], {c: record[c] for c in columns}, record["diff"])
            if on_progress is not None and until is not None:
                on_progress(until)
