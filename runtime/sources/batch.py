"""Rows of a stream on the driver: arrays sorted by time, key and source order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.runtime.sources.clean import DELETED, REJECT, SEQ, TIME
from deadband.runtime.sources.frames import quoted

__all__ = [
    "Batch", "batch_of", "encoded", "feature_columns", "feature_name", "features_of", "last_of_each", "own_features",
    "with_features", "without_features",
]  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Updates of closed ticks; `key` numbers the rows of `keys`, which are in key order."""

    time: NDArray  # int64 or float64[rows]
    key: NDArray  # int64[rows]
    keys: pa.Table
    deleted: NDArray  # uint8[rows]
    features: NDArray  # float64[rows, F]; 0 where NULL
    present: NDArray  # uint64[rows], bits of the features that are not NULL

    def take(self, rows: NDArray) -> Batch:
        return Batch(
            self.time[rows], self.key[rows], self.keys, self.deleted[rows], self.features[rows], self.present[rows]
        )


def feature_name(number: int) -> str:
    return f"__f{number}"


def feature_columns(features: Sequence[exp.Expr]) -> list[Column]:
    """The features as Spark columns; a value that is no number is NULL."""
    return [
        F.expr(f.sql("spark", identify=True)).try_cast("double").alias(feature_name(i)) for i, f in enumerate(features)
    ]


def without_features(table: pa.Table) -> pa.Table:
    return table.select([c for c in table.column_names if not c.startswith("__f")])


def own_features(table: pa.Table, numbers: Mapping[exp.Expr, int], own: Sequence[exp.Expr]) -> pa.Table:
    """A table that has features by these numbers with those of one plan only, numbered from 0."""
    others = without_features(table)
    columns = [table[feature_name(numbers[f])] for f in own]
    return pa.table([*others.columns, *columns], names=[*others.column_names, *map(feature_name, range(len(own)))])


def with_features(frame: DataFrame, stream: Stream, features: Sequence[exp.Expr]) -> DataFrame:
    """The key, time and features of cleaned rows; refused rows keep their reason."""
    keys = [F.col(quoted(k)) for k in stream.key]
    return frame.select(*keys, TIME, SEQ, DELETED, REJECT, *feature_columns(features))


def batch_of(table: pa.Table, key: Sequence[str], features: int) -> Batch:
    """Good rows in order: by time, key and source order."""
    codes, first = encoded(table.select(list(key)))
    time = table[TIME].to_numpy()
    order = np.lexsort((table[SEQ].to_numpy(), codes, time))
    values, present = features_of(table, features, order)
    deleted = table[DELETED].to_numpy()[order].astype(np.uint8)
    return Batch(
        time[order], codes[order], table.select(list(key)).take(first).combine_chunks(), deleted, values, present
    )


def features_of(table: pa.Table, features: int, order: NDArray) -> tuple[NDArray, NDArray]:
    """The features of rows in this order: numbers, 0 where NULL, and the bits of those that are not NULL."""
    values = np.zeros((len(order), features))
    present = np.zeros(len(order), np.uint64)
    for f in range(features):
        column = table[feature_name(f)]
        valid = column.is_valid().to_numpy()[order]
        values[:, f] = column.fill_null(0.0).to_numpy()[order]
        present |= valid.astype(np.uint64) << np.uint64(f)
    return values, present


def last_of_each(tick: NDArray, key: NDArray) -> NDArray:
    """Row numbers by tick and key, of each pair only the last; rows come in order of time within a key."""
    order = np.lexsort((np.arange(len(tick)), key, tick))
    same = (tick[order][1:] == tick[order][:-1]) & (key[order][1:] == key[order][:-1])
    return order[np.append(~same, True)] if len(order) else order


def encoded(table: pa.Table) -> tuple[NDArray, NDArray]:
    """A number per row such that equal rows have equal numbers, in the order of the rows, and the first row of each."""
    codes: NDArray | None = None
    for column in table.columns:
        own, size = _codes(column)
        codes = own if codes is None else np.unique(codes * size + own, return_inverse=True)[1]
    assert codes is not None
    size = int(codes.max()) + 1 if len(codes) else 0
    first = np.empty(size, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, first


def _codes(column: pa.ChunkedArray) -> tuple[NDArray, int]:
    """The rank of each value among the distinct ones, NULL last, and how many ranks there are."""
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        column = pa.chunked_array([pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string())])
    found = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(found.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), len(order)
    return rank[found.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)], len(order) + 1
