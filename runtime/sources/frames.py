"""Frames of pandas and pyarrow as Spark frames, and results of Spark as pandas frames, without loss of type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deadband.compiler.errors import DeadbandError

__all__ = ["as_frame", "from_arrow", "pandas_of", "quoted"]

# Arrow types that Spark has no name for, and the smallest that holds their values
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def as_frame(spark: SparkSession, data: Any, name: str, ntz: bool = False) -> DataFrame:
    """A Spark frame from a Spark, pandas or pyarrow one; ntz: a timestamp without a zone keeps none."""
    if isinstance(data, DataFrame):
        if data.isStreaming:
            raise DeadbandError(
                f"the frame for {name} has no end", hint="give streaming frames to start, not to replay"
            )
        return data
    if not isinstance(data, pd.DataFrame | pa.Table | pa.RecordBatch):
        raise DeadbandError(
            f"the rows of {name} must be a Spark, pandas or pyarrow frame, not {type(data).__name__}",
            hint="for example pandas.DataFrame({'symbol': […], 'price': […], 'at': […]})",
        )
    names = [str(c) for c in (data.columns if isinstance(data, pd.DataFrame) else data.schema.names)]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DeadbandError(f"the frame for {name} has the column {twice} twice")
    try:
        if isinstance(data, pd.DataFrame):
            arrays: Sequence = [_array(data[c]) for c in data.columns]
        else:
            arrays = data.columns
        frame = from_arrow(spark, pa.table(list(map(_plain, arrays)), names=names))
        return frame if ntz else _zoned(frame)
    except Exception as error:
        detail = str(error).split("\n")[0]
        raise DeadbandError(f"the frame for {name} cannot be read by Spark", detail=detail) from error


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A Spark frame of an Arrow table; a timestamp without a zone is TIMESTAMP_NTZ."""
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # combined: PySpark 4.3 loses the rows of an Arrow table that come after an empty chunk
    return spark.createDataFrame(table.combine_chunks(), schema)


def pandas_of(table: pa.Table, timezone: str) -> pd.DataFrame:
    """An Arrow table as users see it: wall-clock times of the session's zone, whole numbers whole beside NULL."""
    columns = [_series(column, timezone) for column in table.columns]
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame()
    frame.columns = table.column_names
    return frame


def quoted(name: str) -> str:
    """A name as one identifier of Spark SQL."""
    return f"`{name.replace('`', '``')}`"


def _array(series: pd.Series) -> pa.Array:
    """A column of pandas; one of mixed types as text, so that values are judged one by one when they are cast."""
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, OverflowError):
        missing = series.isna()
        return pa.array([None if no else str(v) for v, no in zip(series, missing, strict=True)], pa.string())


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    kind = array.type.value_type if isinstance(array.type, pa.DictionaryType) else array.type
    kind = _WIDER.get(kind, kind)
    return array if kind == array.type else array.cast(kind)


def _zoned(frame: DataFrame) -> DataFrame:
    """TIMESTAMP_NTZ as TIMESTAMP, by Spark's rules for wall-clock times that the zone has twice or never."""
    zoneless = [f.name for f in frame.schema if isinstance(f.dataType, T.TimestampNTZType)]
    return frame.withColumns({name: F.col(quoted(name)).cast("timestamp") for name in zoneless}) if zoneless else frame


def _series(column: pa.ChunkedArray, timezone: str) -> pd.Series:
    kind = column.type
    if pa.types.is_integer(kind) and column.null_count:
        return column.to_pandas(types_mapper={kind: _NULLABLE[kind]}.get)
    if not pa.types.is_timestamp(kind):
        return column.to_pandas(date_as_object=True)
    try:
        series = column.to_pandas(coerce_temporal_nanoseconds=True)
    except pa.ArrowInvalid:  # years that nanoseconds cannot reach
        series = column.to_pandas()
    return series if kind.tz is None else series.dt.tz_convert(timezone).dt.tz_localize(None)


_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}
