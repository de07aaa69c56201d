"""A stream's source as a streaming frame: Spark's readStream, with the columns the files really have."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError
from deadband.runtime.sources.clean import schema_of
from deadband.runtime.sources.input import source_error
from deadband.runtime.sql import SPARK_ERRORS

__all__ = ["read_stream"]

_TEXT_FORMATS = ("csv", "json")


def read_stream(spark: SparkSession, stream: Stream, given: Any | None) -> DataFrame:
    """The unbounded rows of a stream: the streaming frame given, or its declared source."""
    if given is not None:
        if isinstance(given, DataFrame) and given.isStreaming:
            return given
        raise DeadbandError(
            f"the frame for {stream.name} is bounded",
            hint="start takes streaming frames (spark.readStream…); replay takes bounded ones",
        )
    if stream.format is None:
        raise DeadbandError(
            f"stream {stream.name} has no source",
            hint=f"declare one with USING, or give a streaming frame: start(…, frames={{'{stream.name}': frame}})",
        )
    options = dict(stream.options)
    try:
        if stream.format.lower() == "table":
            return spark.readStream.table(options["name"])
        reader = spark.readStream.format(stream.format).options(**options)
        if "path" in options:
            reader = reader.schema(_schema_of_files(spark, stream))
        return reader.load()
    except KeyError:
        raise DeadbandError(
            f"the source of {stream.name} needs a name", hint="USING table OPTIONS (name 'history')"
        ) from None
    except SPARK_ERRORS as error:
        raise source_error(stream, error) from error


def _schema_of_files(spark: SparkSession, stream: Stream) -> T.StructType:
    """What the files there are say, else what was declared; text formats are read as text and cast with checks."""
    declared = schema_of(spark, stream)
    assert stream.format is not None
    try:
        found = spark.read.format(stream.format).options(**dict(stream.options)).load().schema
    except PySparkException:
        found = declared  # no file there yet
    if stream.format.lower() in _TEXT_FORMATS:
        plain = (T.ArrayType, T.MapType, T.StructType)
        return T.StructType(
            [f if isinstance(f.dataType, plain) else T.StructField(f.name, T.StringType()) for f in found.fields]
        )
    return found
