"""Rows of a stream on the driver: arrays sorted by time, key and source order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.runtime.sources.clean import DELETED, REJECT, SEQ, TIME

__all__ = ["Batch", "batch_of", "collect", "feature_columns", "last_of_each"]


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


def feature_columns(features: Sequence[exp.Expression]) -> list:
    """The features as Spark columns f0, f1, …; a value that is no number is NULL."""
    return [
        F.expr(exp.TryCast(this=f.copy(), to=exp.DataType.build("DOUBLE")).sql("spark", identify=True)).alias(f"f{i}")
        for i, f in enumerate(features)
    ]


def collect(frame: DataFrame, stream: Stream, features: Sequence[exp.Expression]) -> pa.Table:
    """The key, time and features of cleaned rows as an Arrow table; refused rows keep their reason."""
    keys = [F.col(f"`{k}`") for k in stream.key]
    return frame.select(*keys, TIME, SEQ, DELETED, REJECT, *feature_columns(features)).toArrow()


def batch_of(table: pa.Table, key: Sequence[str], features: int) -> Batch:
    """Good rows in order: by time, key and source order."""
    codes, keys = _encode(table, key)
    time = _numpy(table[TIME])
    order = np.lexsort((_numpy(table[SEQ]), codes, time))
    values = np.empty((len(order), features))
    present = np.zeros(len(order), np.uint64)
    for f in range(features):
        column = table[f"f{f}"].combine_chunks()
        valid = column.is_valid().to_numpy(zero_copy_only=False)[order]
        values[:, f] = np.where(valid, column.fill_null(0.0).to_numpy(zero_copy_only=False)[order], 0.0)
        present |= valid.astype(np.uint64) << np.uint64(f)
    deleted = _numpy(table[DELETED])[order].astype(np.uint8)
    return Batch(time[order], codes[order], keys, deleted, values, present)


def last_of_each(tick: NDArray, key: NDArray) -> NDArray:
    """Row numbers by tick and key, of each pair only the last; rows come in order of time within a key."""
    order = np.lexsort((np.arange(len(tick)), key, tick))
    same = (tick[order][1:] == tick[order][:-1]) & (key[order][1:] == key[order][:-1])
    return order[np.append(~same, True)] if len(order) else order


def _encode(table: pa.Table, key: Sequence[str]) -> tuple[NDArray, pa.Table]:
    """A number per row for its key, and the distinct keys in key order."""
    count = len(table)
    combined = np.zeros(count, np.int64)
    for name in key:
        encoded = table[name].combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        combined = combined * max(len(encoded.dictionary), 1) + codes
        combined = np.unique(combined, return_inverse=True)[1] if len(key) > 1 else combined
    size = int(combined.max()) + 1 if count else 0
    first = np.empty(size, np.int64)
    first[combined[::-1]] = np.arange(count - 1, -1, -1)
    keys = table.select(list(key)).take(pa.array(first))
    order = pc.sort_indices(keys, sort_keys=[(k, "ascending") for k in key]).to_numpy()
    rank = np.empty(size, np.int64)
    rank[order] = np.arange(size)
    return rank[combined], keys.take(pa.array(order)).combine_chunks()


def _numpy(column: pa.ChunkedArray) -> NDArray:
    return column.combine_chunks().to_numpy(zero_copy_only=False)
