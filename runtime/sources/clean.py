"""Rows of a stream as Spark frames: declared columns, event time as a number, source order, what to delete or refuse.

After: lower-case declared columns with the declared types, TIME (an ordinal), SEQ (source order), DELETED, and REJECT:
the reason a row is refused, NULL for a good row. A refused row is counted and is no part of truth.
"""

from __future__ import annotations

import decimal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError, did_you_mean
from deadband.runtime.clock import LONG_DIGITS
from deadband.runtime.sources.frames import quoted
from deadband.runtime.sql import SPARK_ERRORS, first_line

__all__ = ["DELETED", "REJECT", "SEQ", "TIME", "clean", "ordinal", "schema_of"]

TIME, SEQ, DELETED, REJECT = "__time", "__seq", "__deleted", "__reject"

_FAILED = "__failed"
_INFINITY = float("inf")


def schema_of(spark: SparkSession, stream: Stream) -> T.StructType:
    """The declared columns as Spark types, in lower case."""
    found = T.StructType.fromDDL(", ".join(f"{quoted(name)} {kind}" for name, kind in stream.types.items()))
    assert isinstance(found, T.StructType)
    return found


def clean(frame: DataFrame, stream: Stream) -> DataFrame:
    """The rows of a frame as rows of a stream."""
    fields = schema_of(frame.sparkSession, stream).fields
    casts: list[Column] = []
    failed: list[Column] = [F.lit(None).cast("string")]
    for field in fields:
        name = _spelling(frame, stream, field.name)
        column, wrong = _cast(F.col(quoted(name)), frame.schema[name].dataType, field.dataType)
        if field.name in stream.key and isinstance(field.dataType, T.FractionalType):
            column = (column + F.lit(0).cast(field.dataType)).cast(field.dataType)  # -0.0 is 0.0
        casts.append(column.alias(field.name))
        if wrong is not None:
            failed.append(F.when(wrong, F.lit(f"{field.name} is not {field.dataType.simpleString()}")))
    kinds = {f.name: f.dataType for f in fields}
    time = ordinal(kinds[stream.timestamp], F.col(quoted(stream.timestamp)))
    no_time = time.isNull() | F.isnan(time.cast("double")) | (F.abs(time.cast("double")) == _INFINITY)
    reasons = [F.col(_FAILED), F.when(no_time, F.lit("no event time"))]
    for key in stream.key:
        reasons.append(F.when(F.col(quoted(key)).isNull(), F.lit(f"{key} is NULL, and it is part of the key")))
        if isinstance(kinds[key], T.FloatType | T.DoubleType):
            reasons.append(F.when(F.isnan(quoted(key)), F.lit(f"{key} is NaN, and it is part of the key")))
    deleted = F.lit(False) if stream.delete_when is None else F.coalesce(F.expr(stream.delete_when), F.lit(False))
    try:
        rows = frame.select(*casts, F.monotonically_increasing_id().alias(SEQ), F.coalesce(*failed).alias(_FAILED))
        return rows.select(
            *(F.col(quoted(f.name)) for f in fields),
            time.alias(TIME),
            F.col(SEQ),
            deleted.alias(DELETED),
            F.coalesce(*reasons).alias(REJECT),
        )
    except SPARK_ERRORS as error:
        raise DeadbandError(
            f"the rows of {stream.name} do not fit its columns", stream.span, detail=first_line(error)
        ) from error


def _spelling(frame: DataFrame, stream: Stream, name: str) -> str:
    """The column of the frame that a declared name means."""
    found = [c for c in frame.columns if c.lower() == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise DeadbandError(f"the rows of {stream.name} have the column {name} twice", detail=" and ".join(found))
    raise DeadbandError(
        f"the rows of {stream.name} have no column {name}",
        detail=f"they have {', '.join(frame.columns)}",
        hint=did_you_mean(name, frame.columns),
    )


def _cast(column: Column, given: T.DataType, wanted: T.DataType) -> tuple[Column, Column | None]:
    """The column with the wanted type, and whether a value was lost or changed on the way (None: it cannot be)."""
    if given == wanted:
        return column, None
    cast = column.try_cast(wanted)
    wrong = column.isNotNull() & cast.isNull()
    rounds = isinstance(given, T.FractionalType) and isinstance(wanted, T.IntegralType | T.DecimalType)
    cuts = isinstance(given, T.TimestampType | T.TimestampNTZType) and isinstance(wanted, T.DateType)
    return cast, wrong | (cast.try_cast(given) != column) if rounds or cuts else wrong


def ordinal(kind: T.DataType, column: Column) -> Column:
    """Event time as a number: microseconds, days, units in the last place of a decimal, or the number itself."""
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType):  # by subtraction: a cast would shift what the session's zone skips
        seconds = (
            (column - F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")).cast("interval second").cast("decimal(20, 6)")
        )
        return (seconds * 1_000_000).cast("bigint")
    if isinstance(kind, T.DateType):
        return F.unix_date(column).cast("bigint")
    if isinstance(kind, T.DecimalType) and kind.precision <= LONG_DIGITS:
        return (column * F.lit(decimal.Decimal(10**kind.scale))).cast("bigint")
    return column.cast("bigint" if isinstance(kind, T.IntegralType) else "double")
