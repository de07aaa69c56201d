"""Rows of a stream as Spark frames: declared columns, event time as a number, source order, what to delete or refuse.

After: lower-case declared columns with the declared types, TIME (an ordinal), SEQ (source order), DELETED, and REJECT:
the reason a row is refused, NULL for a good row. A refused row is counted and is no part of truth.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError, did_you_mean

__all__ = ["DELETED", "REJECT", "SEQ", "TIME", "as_frame", "clean", "schema_of"]

TIME, SEQ, DELETED, REJECT = "__time", "__seq", "__deleted", "__reject"


def as_frame(spark: SparkSession, data: Any, name: str) -> DataFrame:
    """A Spark frame from a Spark, pandas or pyarrow one."""
    if isinstance(data, DataFrame):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pd.DataFrame | pa.Table):
        try:
            return spark.createDataFrame(data)
        except Exception as error:
            raise DeadbandError(f"the frame for {name} cannot be read by Spark", detail=str(error).split("\n")[0]) from error
    raise DeadbandError(
        f"the rows of {name} must be a Spark, pandas or pyarrow frame, not {type(data).__name__}",
        hint="for example pandas.DataFrame({'symbol': […], 'price': […], 'at': […]})",
    )


def schema_of(spark: SparkSession, stream: Stream) -> T.StructType:
    """The declared columns as Spark types, in lower case."""
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in stream.types.items())
    return T.StructType.fromDDL(ddl)


def clean(frame: DataFrame, stream: Stream) -> DataFrame:
    """The rows of a frame as rows of a stream."""
    spark = frame.sparkSession
    have = {c.lower(): c for c in frame.columns}
    casts: list[Column] = []
    failed: list[Column] = []
    for field in schema_of(spark, stream).fields:
        if field.name not in have:
            raise DeadbandError(
                f"the rows of {stream.name} have no column {field.name}",
                detail=f"they have {', '.join(frame.columns)}",
                hint=did_you_mean(field.name, frame.columns),
            )
        given = frame.schema[have[field.name]].dataType
        column = F.col(_quoted(have[field.name]))
        if given == field.dataType:
            casts.append(column.alias(field.name))
            continue
        cast = column.try_cast(field.dataType)
        casts.append(cast.alias(field.name))
        failed.append(
            F.when(column.isNotNull() & cast.isNull(), F.lit(f"{field.name} is not {field.dataType.simpleString()}"))
        )
    order = F.monotonically_increasing_id().alias(SEQ)
    rows = frame.select(*casts, order, (F.coalesce(*failed) if failed else F.lit(None).cast("string")).alias("__failed"))
    time = _ordinal(rows.schema[stream.timestamp].dataType, F.col(_quoted(stream.timestamp)))
    reasons = [F.col("__failed"), F.when(time.isNull() | F.isnan(time.cast("double")), F.lit("no event time"))]
    reasons += [F.when(F.col(_quoted(k)).isNull(), F.lit(f"{k} is NULL, and it is part of the key")) for k in stream.key]
    deleted = F.lit(False) if stream.delete_when is None else F.coalesce(F.expr(stream.delete_when), F.lit(False))
    return rows.select(
        *(F.col(_quoted(c)) for c in stream.types),
        time.alias(TIME),
        F.col(SEQ),
        deleted.alias(DELETED),
        F.coalesce(*reasons).alias(REJECT),
    )


def _ordinal(kind: T.DataType, column: Column) -> Column:
    """Event time as a number: microseconds, days, or the number itself."""
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType):
        return F.unix_micros(F.to_utc_timestamp(column.cast("timestamp"), F.current_timezone()))
    if isinstance(kind, T.DateType):
        return F.unix_date(column).cast("bigint")
    if isinstance(kind, T.IntegralType):
        return column.cast("bigint")
    return column.cast("double")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
