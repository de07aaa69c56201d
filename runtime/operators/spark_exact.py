"""SparkExact: the changes of a plain SQL body's answer from tick to tick, found by Spark.

Law. Let S(t) be the rows in force at tick t: the latest row of every key that is not deleted, or all rows so far of a
stream without a key. Before: clean rows (stream columns, __tick, __seq, __deleted), ticks 0 … ticks - 1, and -1 for
rows carried over from an earlier batch. After: rows (__tick, diff, output columns) such that adding all up to tick t to
the answer over the carried rows gives the body's answer over S(t), as a multiset; at one tick no row is both withdrawn
and added, and the withdrawn ones come first. Rows are equal as Spark's GROUP BY has it: NULL = NULL, NaN = NaN,
-0.0 = 0.0. Cost: one Spark job over the versions, or one over the live rows of all ticks at which a row came, or one
for each of these ticks; compiler/lower/as_of.py decides which.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlglot import exp

from deadband.compiler.errors import DeadbandError
from deadband.compiler.lower.as_of import FROM, NEVER, TICK, TICKS, TICKS_OF, TO, VERSIONS_OF, AsOf
from deadband.runtime.sources.clean import DELETED, SEQ
from deadband.runtime.sources.frames import quoted
from deadband.runtime.sql import first_line, temp_views, with_tables

__all__ = ["carry", "changes"]

DIFF = "diff"
# cached batches are skipped by statistics that leave out NaN (SPARK-58482), which is greater than any number
NO_PRUNING = ("spark.sql.inMemoryColumnarStorage.partitionPruning", "false")
CHUNK_ROWS = 1_000_000  # answers kept on the driver before their differences are taken

log = logging.getLogger(__name__)


def changes(
    spark: SparkSession,
    plan: AsOf,
    frames: Mapping[str, DataFrame],
    keys: Mapping[str, Sequence[str]],
    ticks: int,
    baseline: bool = False,
    progress: Callable[[int, int], object] | None = None,
    views: Mapping[str, str] | None = None,
) -> DataFrame:
    """The changes at ticks 0 … ticks - 1, in order, computed once and kept until the frame is let go.

    baseline: the answer over the carried rows has been reported. views: what to read in place of static tables.
    """
    spark.conf.set(*NO_PRUNING)
    batch = _Batch(spark, frames, keys, ticks, baseline, views or {}, progress)
    if plan.form != "jobs":
        try:
            return _FORMS[plan.form](batch, plan.query).localCheckpoint(eager=False)
        except AnalysisException as error:
            log.warning("one job a tick, since Spark refused the query over all ticks: %s", first_line(error))
        except PySparkException as error:
            raise _cannot_run(error) from error
    try:
        return _jobs(batch, plan.body)
    except PySparkException as error:
        raise _cannot_run(error) from error


def carry(frames: Mapping[str, DataFrame], keys: Mapping[str, Sequence[str]]) -> dict[str, DataFrame]:
    """The rows that the next batch starts from: those in force after the last tick, at tick -1."""
    carried = {}
    for name, frame in frames.items():
        last = _spans(frame, keys[name]).where(F.col(TO) == NEVER)
        carried[name] = last.withColumn(TICK, F.lit(-1).cast("bigint")).select(*map(quoted, frame.columns))
    return carried


# ---------------------------------------------------------------- one function per form


@dataclass(frozen=True)
class _Batch:
    """The rows of some ticks, and what stands beside them."""

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    keys: Mapping[str, Sequence[str]]
    ticks: int
    baseline: bool
    views: Mapping[str, str]
    progress: Callable[[int, int], object] | None

    @property
    def known(self) -> int | None:
        """The tick whose answer has been reported."""
        return -1 if self.baseline else None

    def clock(self) -> list[int]:
        """The ticks at which the answer can differ from the one before, and the first that has an answer."""
        if not self.ticks:
            return []
        seen = reduce(DataFrame.union, (frame.select(TICK).distinct() for frame in self.frames.values()))
        first = -1 if self.baseline else 0
        return sorted({first, *seen.toArrow()[TICK].to_pylist()})

    def versions(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """The streams' columns, __from and __to."""
        return {name: _spans(frame, self.keys[name]).drop(TICK, SEQ, DELETED) for name, frame in frames.items()}


def _versions(batch: _Batch, query: exp.Query) -> DataFrame:
    versions = batch.versions(batch.frames)
    rows = _comparable(_answer(batch, query, {VERSIONS_OF + name: spans for name, spans in versions.items()}))
    found = _differences(_numbered(rows, FROM, TO), batch.known, batch.ticks)
    return _named(_ordered(found), rows.columns[:-2])


def _ticks(batch: _Batch, query: exp.Query) -> DataFrame:
    clock = batch.clock()
    first = clock[0] if clock else 0
    end = first + len(clock)
    frames, indexes = batch.frames, None
    if clock != list(range(first, end)):
        # ticks at which no row came are skipped: the others are counted through, and get their names back below
        indexes = batch.spark.createDataFrame(pa.table({TICK: clock, "__index": list(range(first, end))}))
        frames = {name: _retimed(frame, indexes) for name, frame in frames.items()}
    tables = {TICKS: batch.spark.range(first, end).toDF(TICK)}
    for name, spans in batch.versions(frames).items():
        valid = F.sequence(F.col(FROM), F.least(F.col(TO), F.lit(end)) - 1)
        tables[TICKS_OF + name] = spans.withColumn(TICK, F.explode(valid)).drop(FROM, TO)
    rows = _comparable(_answer(batch, query, tables))
    found = _differences(_numbered(rows, FROM).withColumn(TO, F.col(FROM) + 1), batch.known, end)
    if indexes is not None:
        found = _retimed(found, indexes.select(F.col("__index").alias(TICK), F.col(TICK).alias("__index")))
    return _named(_ordered(found), rows.columns[:-1])


def _jobs(batch: _Batch, body: exp.Query) -> DataFrame:
    clock = batch.clock()
    versions = {name: spans.persist() for name, spans in batch.versions(batch.frames).items()}
    try:
        empty = _comparable(_answer(batch, body, {name: _state(spans, -2) for name, spans in versions.items()}))
        known = 0 if batch.baseline else None
        found, pending, start = [], [], 0
        for position, tick in enumerate(clock):
            answer = _answer(batch, body, {name: _state(spans, tick) for name, spans in versions.items()})
            pending.append(_numbered(answer).toArrow())
            if position == len(clock) - 1 or sum(table.num_rows for table in pending) > CHUNK_ROWS:
                found.append(_chunk(_numbered(empty), pending, start, known))
                pending, start, known = pending[-1:], position, position
            if batch.progress is not None:
                batch.progress(position + 1, len(clock))
    finally:
        for spans in versions.values():
            spans.unpersist()
    times = [T.StructField(TICK, T.LongType()), T.StructField(DIFF, T.IntegerType())]
    schema = T.StructType([*times, *_numbered(empty).schema])
    if not found:
        return _named(batch.spark.createDataFrame([], schema), empty.columns)
    table = pa.concat_tables(found)
    table = table.set_column(0, TICK, pa.array(clock, pa.int64()).take(table[TICK]))
    return _named(batch.spark.createDataFrame(table.combine_chunks(), schema), empty.columns)


def _chunk(empty: DataFrame, answers: list[pa.Table], start: int, known: int | None) -> pa.Table:
    """The differences of consecutive answers, the first of which is at position start."""
    timed = [
        table.append_column(FROM, pa.array([start + i] * table.num_rows, pa.int64())) for i, table in enumerate(answers)
    ]
    schema = T.StructType([*empty.schema, T.StructField(FROM, T.LongType())])
    # combined: PySpark 4.3 loses the rows of an Arrow table that come after an empty chunk
    rows = empty.sparkSession.createDataFrame(pa.concat_tables(timed).combine_chunks(), schema)
    spans = rows.withColumn(TO, F.col(FROM) + 1)
    return _ordered(_differences(spans, known, start + len(answers))).toArrow()


_FORMS: Mapping[str, Callable[[_Batch, exp.Query], DataFrame]] = {"versions": _versions, "ticks": _ticks}


# ---------------------------------------------------------------- steps


def _spans(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows that are ever in force, with the ticks __from <= t < __to in which they are."""
    start = F.col(TICK)
    end = F.lit(NEVER)
    if key:
        in_order = Window.partitionBy(*map(quoted, key)).orderBy(TICK, SEQ)
        end = F.coalesce(F.lead(TICK).over(in_order), end)
    spans = frame.withColumn(FROM, start).withColumn(TO, end.cast("bigint"))
    return spans.where(~F.col(DELETED) & (F.col(FROM) < F.col(TO)))


def _state(spans: DataFrame, tick: int) -> DataFrame:
    return spans.where((F.col(FROM) <= tick) & (F.col(TO) > tick)).drop(FROM, TO)


def _retimed(frame: DataFrame, indexes: DataFrame) -> DataFrame:
    """The frame with every __tick replaced by its __index."""
    found = frame.join(F.broadcast(indexes), TICK)
    return found.withColumn(TICK, F.col("__index")).select(*map(quoted, frame.columns))


def _answer(batch: _Batch, query: exp.Query, tables: Mapping[str, DataFrame]) -> DataFrame:
    """A query over some tables, which no other query sees."""
    with temp_views(tables) as names:
        names = {**{name.lower(): view for name, view in batch.views.items()}, **names}
        return batch.spark.sql(with_tables(query, names).sql("spark", identify=True))


def _comparable(rows: DataFrame) -> DataFrame:
    """The rows, if Spark can tell whether two of them are equal."""
    numbered = _numbered(rows)
    if _groups(numbered, *numbered.columns):
        return rows
    field = next(f for f, number in zip(rows.schema, numbered.columns) if not _groups(numbered, number))
    raise DeadbandError(
        f"column {field.name} of type {field.dataType.simpleString().upper()} cannot be compared",
        detail="what changed from tick to tick is found by comparing rows",
        hint=f"select a part of {field.name}, or CAST({field.name} AS STRING)",
    )


def _groups(rows: DataFrame, *columns: str) -> bool:
    try:
        rows.groupBy(*columns).count()
    except AnalysisException:
        return False
    return True


def _differences(spans: DataFrame, known: int | None, end: int) -> DataFrame:
    """(__tick, diff, columns …) for rows in force in [__from, __to); of ticks after the known one and before end."""
    columns = spans.columns[:-2]
    start = F.col(FROM) if known is not None else F.greatest(F.col(FROM), F.lit(0))
    starts = F.struct(start.alias(TICK), F.lit(1).alias("n"))
    ends = F.struct(F.col(TO).alias(TICK), F.lit(-1).alias("n"))
    events = spans.select(*columns, F.inline(F.array(starts, ends)))
    events = events.where((F.col(TICK) < end) & (F.col(TICK) > (-1 if known is None else known)))
    counts = events.groupBy(*columns, TICK).agg(F.sum("n").alias("n")).where("n <> 0")
    once = F.when(F.col("n") > 0, 1).otherwise(-1)
    repeated = F.array_repeat(once, F.abs("n").cast("int"))
    return counts.select(TICK, F.explode(repeated).alias(DIFF), *columns)


def _ordered(found: DataFrame) -> DataFrame:
    """By tick, withdrawn rows first, then by the columns that have an order: the same however Spark cuts the work."""
    kinds = {field.name: field.dataType.simpleString() for field in found.schema}
    return found.orderBy(*(name for name, kind in kinds.items() if "map<" not in kind and kind != "interval"))


def _numbered(rows: DataFrame, *last: str) -> DataFrame:
    """Columns named by their number, since the names of outputs may repeat; the last ones named as given."""
    count = len(rows.columns) - len(last)
    return rows.toDF(*(f"__{i}" for i in range(count)), *last)


def _named(found: DataFrame, columns: Sequence[str]) -> DataFrame:
    return found.toDF(TICK, DIFF, *columns)


def _cannot_run(error: PySparkException) -> DeadbandError:
    return DeadbandError("Spark cannot run this query", detail=first_line(error))
