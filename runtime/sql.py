"""Queries as Spark runs them: tables renamed to the views that hold their rows, errors of Spark turned into ours."""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Iterator, Mapping

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from deadband.compiler.errors import DeadbandError
from deadband.compiler.lower.as_of import tables_read

__all__ = ["SPARK_ERRORS", "absolute_paths", "collected", "first_line", "run_query", "temp_views", "with_tables"]

SPARK_ERRORS = (PySparkException, Py4JJavaError)  # some of the JVM's come as they are


def with_tables(query: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """The query reading other tables: names maps lower-case table names to what to read instead."""
    query = query.copy()
    for table in list(tables_read(query)):
        view = names.get(".".join(part.name for part in table.parts).lower())
        if view is not None:
            table.set("alias", table.args.get("alias") or exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(view, quoted=True))
            table.set("db", None)
            table.set("catalog", None)
    return query


def run_query(spark: SparkSession, query: exp.Expr, names: Mapping[str, str]) -> DataFrame:
    """The frame of a query over renamed tables."""
    try:
        return spark.sql(with_tables(query, names).sql("spark", identify=True))
    except SPARK_ERRORS as error:
        raise DeadbandError("Spark cannot run this query", detail=first_line(error)) from error


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame on the driver."""
    try:
        return frame.toArrow()
    except SPARK_ERRORS as error:
        raise DeadbandError("Spark cannot run this query", detail=first_line(error)) from error


@contextlib.contextmanager
def temp_views(frames: Mapping[str, DataFrame]) -> Iterator[dict[str, str]]:
    """Temporary views of frames under names of their own, dropped afterwards."""
    views = {name: f"__view_{uuid.uuid4().hex[:12]}" for name in frames}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(views[name])
    try:
        yield views
    finally:
        for name, frame in frames.items():
            frame.sparkSession.catalog.dropTempView(views[name])


def absolute_paths(text: str) -> str:
    """A CREATE TABLE whose relative paths count from the working directory, as they do everywhere else.

    Spark takes them from its warehouse, where a csv file of the user's never is, and reads an empty table.
    """
    tokens = Spark().tokenize(text)
    if [t.text.upper() for t in tokens[:2]] != ["CREATE", "TABLE"]:
        return text
    places = [
        two
        for one, two in itertools.pairwise(tokens)
        if two.token_type == TokenType.STRING and one.text.lower() in ("path", "location")
    ]
    for token in reversed(places):
        if "://" not in token.text and not os.path.isabs(token.text):
            literal = exp.Literal.string(os.path.abspath(token.text)).sql("spark")
            text = text[: token.start] + literal + text[token.end + 1 :]
    return text


def first_line(error: Exception) -> str:
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().split("\n")[0]
