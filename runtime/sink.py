"""INTO: where changes go besides the connection. File sinks are idempotent by batch: batch n is the folder batch=n."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from deadband.compiler.errors import DeadbandError
from deadband.compiler.logical import Query
from deadband.runtime.context import Context
from deadband.runtime.sql import SPARK_ERRORS, first_line

__all__ = ["check_sink", "write_batch"]


def check_sink(context: Context, query: Query) -> None:
    """A format that Spark does not know is told when the query is created, not after its first batch."""
    if query.into is None:
        return
    spark = context.spark
    jvm: Any = spark.sparkContext._jvm
    lookup = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource
    try:
        lookup(query.into.format.text, spark._jsparkSession.sessionState().conf())
    except SPARK_ERRORS as error:
        raise DeadbandError(
            f"Spark knows no format {query.into.format.text}",
            query.into.format.span,
            detail=first_line(error),
            hint="for example parquet, csv, json, orc",
        ) from error


def write_batch(context: Context, query: Query, rows: DataFrame, batch: int) -> None:
    """One batch of changes; a replay is batch 0, and a second replay replaces it."""
    assert query.into is not None
    kind, options = query.into.format.text, dict(query.into.options)
    writer = rows.write.format(kind).options(**{k: v for k, v in options.items() if k != "path"})
    try:
        if "path" in options:
            writer.mode("overwrite").save(f"{options['path'].rstrip('/')}/batch={batch}")
        else:
            writer.mode("append").save()
    except SPARK_ERRORS as error:
        raise DeadbandError(
            f"the changes of {query.name} cannot be written", query.into.span, detail=first_line(error)
        ) from error
