"""ANALYZE STREAM: how often and how far every item moves, and what filters of several widths would have sent.

Rows are cut by key; each partition is one call of a kernel. Few rows are taken to the driver, by the same function.
A row that is refused, deletes its key, or has no number for a feature changes nothing of that feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.compiler.logical import ItemAggregate, Shape
from deadband.compiler.planning.cost_curves import GRID, QUARTERS
from deadband.runtime.context import Context
from deadband.runtime.kernels.change_curves import change_curves, quarter_counts
from deadband.runtime.sources.batch import encoded, feature_columns, features_of
from deadband.runtime.sources.clean import DELETED, SEQ, TIME, schema_of
from deadband.runtime.sources.frames import quoted
from deadband.runtime.sources.input import StreamInput
from deadband.runtime.sources.item_statistics import FIGURES, ItemStatistics, feature_text, key_names, schema_with_keys
from deadband.runtime.sql import collected, run_query

__all__ = ["analyze", "analyzed"]

PARTITION_ROWS = 1_000_000
MASK = 64  # features of one pass: bits of a presence mask
HUGE = 1e300  # values beyond are no numbers to sum


def analyze(context: Context, stream: Stream, history: exp.Query | None, shapes: Sequence[Shape]) -> ItemStatistics:
    """The statistics of a stream, of its columns and of what queries of these shapes use of its rows."""
    used = [f for s in shapes if isinstance(s, ItemAggregate) and s.stream == stream for f in s.features]
    rows = None if history is None else run_query(context.spark, history, {})
    source = StreamInput(context.spark, stream, rows, once=context.driver_rows > 0)
    try:
        return analyzed(context, source, list(dict.fromkeys([*_value_columns(context, stream), *used])))
    finally:
        source.close()


def _value_columns(context: Context, stream: Stream) -> list[exp.Expr]:
    """The numeric columns that change, as features."""
    kinds = schema_of(context.spark, stream)
    numeric = [c for c in stream.values if isinstance(kinds[c].dataType, T.NumericType)]
    return [exp.column(c, quoted=True) for c in numeric]


def analyzed(
    context: Context, source: StreamInput, features: Sequence[exp.Expr], every: float | None = None
) -> ItemStatistics:
    """The statistics of these features of a source's rows; every: seconds of a coarser tick."""
    parts = [features[i : i + MASK] for i in range(0, len(features), MASK)] or [()]
    tables = [_analyzed(context, source, part, every) for part in parts]
    return ItemStatistics.of(source.stream, pa.concat_tables(tables))


def _analyzed(context: Context, source: StreamInput, features: Sequence[exp.Expr], every: float | None) -> pa.Table:
    stream = source.stream
    names = [feature_text(f) for f in features]
    width = None if every is None else source.clock.width(every)
    places = [len(source.times) * q // QUARTERS for q in range(1, QUARTERS)]
    cuts = source.times[places] if len(source.times) else source.times
    if source.fits(context.driver_rows):
        rows = source.collect(features)
        return summarised(rows, stream.key, key_names(stream), names, _ticks(source, every), width, cuts)
    summarise = partial(_of_partition, stream.key, key_names(stream), names, _ticks(source, every), width, cuts)
    key = [F.col(quoted(k)) for k in stream.key]
    rows_of = source.good().select(*key, TIME, SEQ, DELETED, *feature_columns(features))
    parts = max(context.spark.sparkContext.defaultParallelism, -(-source.rows // PARTITION_ROWS))
    found = rows_of.repartition(parts, *key).mapInArrow(summarise, schema_with_keys(context.spark, stream))
    return collected(found)


def _ticks(source: StreamInput, every: float | None) -> int:
    times = source.times
    return len(times if every is None else np.unique(source.clock.bucket(times, every)))


def _of_partition(
    key: tuple[str, ...],
    names: list[str],
    features: list[str],
    ticks: int,
    width: float | None,
    cuts: NDArray,
    batches: Iterator,
) -> Iterator[pa.RecordBatch]:
    """One kernel call for all keys of a partition."""
    found = list(batches)
    if sum(map(len, found)):
        table = summarised(pa.Table.from_batches(found), key, names, features, ticks, width, cuts)
        yield from table.combine_chunks().to_batches()


def summarised(
    rows: pa.Table,
    key: Sequence[str],
    names: Sequence[str],
    features: Sequence[str],
    ticks: int,
    width: float | None,
    cuts: NDArray,
) -> pa.Table:
    """Rows of some keys -> their statistics, one row per key and feature; width: of a coarser tick; cuts: quarters."""
    codes, first = encoded(rows.select(list(key)))
    time = rows[TIME].to_numpy()
    order = np.lexsort((rows[SEQ].to_numpy(), time, codes))
    tick = time if width is None else np.floor_divide(time, width)
    order = order[_last_of_tick(codes[order], tick[order])]
    order = order[~rows[DELETED].to_numpy()[order]]
    values, present = features_of(rows, len(features), order)
    keys = rows.select(list(key)).take(first).rename_columns(list(names))
    quarter = np.searchsorted(cuts, time[order], side="right")
    parts = [
        _of_feature(
            keys, name, values[:, f], (present >> np.uint64(f)) & np.uint64(1) == 1, codes[order], ticks, quarter
        )
        for f, name in enumerate(features)
    ]
    none = np.zeros(0)
    return pa.concat_tables(parts) if parts else _of_feature(keys, "", none, none, codes[:0], 1, none)[:0]


def _has(present: NDArray, feature: int) -> NDArray:
    return (present >> np.uint64(feature)) & np.uint64(1) == 1


def _last_of_tick(code: NDArray, tick: NDArray) -> NDArray:
    """Rows come by key, time and source order; of a tick the last counts."""
    return np.append((code[1:] != code[:-1]) | (tick[1:] != tick[:-1]), True) if len(code) else np.zeros(0, bool)


def _of_feature(
    keys: pa.Table, feature: str, value: NDArray, present: NDArray, code: NDArray, ticks: int, quarter: NDArray
) -> pa.Table:
    with np.errstate(invalid="ignore"):
        usable = np.flatnonzero(present & (np.abs(value) < HUGE))
    start = np.searchsorted(code[usable], np.arange(len(keys) + 1)).astype(np.int64)
    found = change_curves(value[usable], start, GRID)
    parts = quarter_counts(value[usable], start, quarter[usable], found.widths, QUARTERS)
    per_tick = 1.0 / max(ticks, 1)
    columns = {
        "feature": pa.repeat(feature, len(keys)),
        "ticks": pa.array(np.full(len(keys), ticks, np.int64)),
        "updates": pa.array(found.updates),
        "changes": pa.array(found.changes),
        "moment": pa.array(found.square * per_tick),
        "absolute": pa.array(found.absolute),
        "level": pa.array(found.level),
        "widths": _lists(found.widths),
        "rates": _lists(found.counts * per_tick),
        "quarters": _lists(parts.reshape(len(keys), QUARTERS * GRID) * (QUARTERS * per_tick)),
    }
    return pa.table([*keys.columns, *(columns[n] for n in FIGURES.names)], names=[*keys.column_names, *FIGURES.names])


def _lists(matrix: NDArray) -> pa.ListArray:
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix.reshape(-1)))
