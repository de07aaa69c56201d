"""What ANALYZE STREAM found: a table with one row per key and feature, checked when it comes from outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError
from deadband.compiler.planning.cost_curves import QUARTERS
from deadband.runtime.sources.batch import encoded
from deadband.runtime.sources.clean import schema_of
from deadband.runtime.sources.frames import as_frame, from_arrow, quoted
from deadband.runtime.sql import collected

__all__ = ["FIGURES", "SUMMARY", "ItemStatistics", "feature_text", "key_names", "load_statistics", "schema_with_keys"]

# one unit throughout: rates and moments are per tick of the analysed history
FIGURES = T.StructType(
    [
        T.StructField("feature", T.StringType()),
        T.StructField("ticks", T.LongType()),
        T.StructField("updates", T.LongType()),  # values
        T.StructField("changes", T.LongType()),  # values that differ from the one before
        T.StructField("moment", T.DoubleType()),  # of the change, squared
        T.StructField("absolute", T.DoubleType()),  # sum of abs(change) over the history
        T.StructField("level", T.DoubleType()),  # mean value
        T.StructField("widths", T.ArrayType(T.DoubleType())),
        T.StructField("rates", T.ArrayType(T.DoubleType())),  # messages at each of the widths
        T.StructField("quarters", T.ArrayType(T.DoubleType())),  # the same in each quarter of the history, one by one
    ]
)
SUMMARY = (
    "stream string, feature string, items bigint, ticks bigint, updates bigint, changes bigint, "
    "updates_per_tick double, changes_per_tick double, moment double, absolute double"
)


def feature_text(feature: exp.Expr) -> str:
    """A function of a row as statistics name it."""
    return feature.sql("spark", identify=True)


def key_names(stream: Stream) -> list[str]:
    """The key's columns in the table of statistics: as declared, unless a figure is called so."""
    taken = set(FIGURES.names)
    return [f"key_{k}" if k in taken else stream.spelling[k] for k in stream.key]


def schema_with_keys(spark: SparkSession, stream: Stream) -> T.StructType:
    kinds = schema_of(spark, stream)
    keys = [T.StructField(n, kinds[k].dataType) for n, k in zip(key_names(stream), stream.key, strict=True)]
    return T.StructType([*keys, *FIGURES.fields])


@dataclass(frozen=True)
class ItemStatistics:
    """The statistics of one stream."""

    stream: Stream
    table: pa.Table  # keys, then FIGURES; by feature, then key

    @staticmethod
    def of(stream: Stream, table: pa.Table) -> ItemStatistics:
        """Rows in an order of their own, whichever partition they come from."""
        code, first = encoded(table.select(["feature", *key_names(stream)]))
        if len(first) < len(table):
            raise DeadbandError(f"the statistics of {stream.name} have a key twice for one feature")
        return ItemStatistics(stream, table.take(np.argsort(code)).combine_chunks())

    def frame(self, spark: SparkSession) -> DataFrame:
        """The table on Spark, to look at or to save."""
        wanted = schema_with_keys(spark, self.stream)
        frame = from_arrow(spark, self.table)
        return frame.select(*(F.col(quoted(f.name)).cast(f.dataType) for f in wanted))

    def summary(self) -> list[tuple]:
        """A row of SUMMARY per feature: sums over the items, moments as means."""
        found = []
        for feature in self.features:
            mine = self.table.filter(pc.equal(self.table["feature"], feature))
            ticks, updates, changes = (int(pc.max(mine["ticks"]).as_py()), *(_sum(mine, c) for c in _COUNTS))
            rates = (updates / max(ticks, 1), changes / max(ticks, 1))
            figures = (pc.mean(mine["moment"]).as_py(), pc.sum(mine["absolute"]).as_py())
            found.append((self.stream.name, feature, len(mine), ticks, int(updates), int(changes), *rates, *figures))
        return found

    @cached_property
    def features(self) -> list[str]:
        return pc.unique(self.table["feature"]).to_pylist()

    @cached_property
    def rows(self) -> dict[str, dict[tuple, int]]:
        """By feature and key: the row. Items without a single value are not in here."""
        found: dict[str, dict[tuple, int]] = {f: {} for f in self.features}
        keys = [self.table[n].to_pylist() for n in key_names(self.stream)]
        seen = (self.column("updates") > 0).tolist()
        for row, (feature, *key) in enumerate(zip(self.table["feature"].to_pylist(), *keys, strict=True)):
            if seen[row]:
                found[feature][tuple(key)] = row
        return found

    def column(self, name: str) -> NDArray:
        """A figure of every row; lists as a matrix."""
        column = self.table[name].combine_chunks()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            return np.asarray(column.flatten()).reshape(len(column), -1)
        return np.asarray(column)


_COUNTS = ("updates", "changes")


def _sum(table: pa.Table, name: str) -> float:
    return pc.sum(table[name]).as_py() or 0


def load_statistics(spark: SparkSession, stream: Stream, data: Any) -> ItemStatistics:
    """Statistics that were saved, for the keys and types of this stream."""
    what = f"the statistics of {stream.name}"
    frame = as_frame(spark, data, what)
    wanted = schema_with_keys(spark, stream)
    given = {c.lower(): c for c in frame.columns}
    missing = [f.name for f in wanted if f.name.lower() not in given]
    if missing:
        raise DeadbandError(
            f"{what} have no column {missing[0]}",
            detail=f"they have {', '.join(frame.columns)}; needed are {', '.join(wanted.names)}",
            hint=f"save what db.statistics('{stream.name}') gives, and load that",
        )
    casts = [F.col(quoted(given[f.name.lower()])).try_cast(f.dataType).alias(f.name) for f in wanted]
    table = collected(frame.select(*casts))
    for name in wanted.names:
        if table[name].null_count:
            raise DeadbandError(
                f"{what} are not complete",
                detail=f"{table[name].null_count:,} of {len(table):,} rows have no usable {name}",
            )
    found = ItemStatistics.of(stream, table)
    _check_curves(found, what)
    return found


def _check_curves(found: ItemStatistics, what: str) -> None:
    """Widths must ascend and rates must be there for each of them; everything must be a number."""
    lengths = [pc.list_value_length(found.table[c]) for c in ("widths", "rates")]
    if len(found.table) and (len(pc.unique(pa.chunked_array([*lengths[0].chunks, *lengths[1].chunks]))) != 1):
        raise DeadbandError(f"{what} have curves of different lengths", detail="widths and rates belong together")
    parts = pc.list_value_length(found.table["quarters"])
    if len(found.table) and not pc.all(pc.equal(parts, pc.multiply(lengths[0], QUARTERS))).as_py():
        raise DeadbandError(f"{what} have quarters of another length", detail="each width has a rate in every quarter")
    if found.table["widths"].combine_chunks().flatten().null_count:
        raise DeadbandError(f"{what} have curves with gaps", detail="a width is NULL")
    if not len(found.table):
        return
    width, rate = found.column("widths"), found.column("rates")
    ascending = (width[:, :1] > 0).all() and (np.diff(width, axis=1) > 0).all() and np.isfinite(width).all()
    if width.shape[1] < 2 or not ascending:
        raise DeadbandError(f"{what} have widths that do not ascend", detail="each row needs two or more, above 0")
    rate = np.concatenate((rate, found.column("quarters")), axis=1)
    if not (np.isfinite(rate).all() and (rate >= 0).all() and (found.column("ticks") > 0).all()):
        raise DeadbandError(f"{what} have rates that are no rates", detail="messages per tick are 0 or more")
