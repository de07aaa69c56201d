"""CREATE STREAM to a catalog entry: columns, key, event time and conditions checked against each other."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp
from sqlglot.errors import SqlglotError

from deadband.compiler import ast
from deadband.compiler.bind.body import parse_sql, span_of
from deadband.compiler.bind.stream_options import change_rate, message_cost, source_options
from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError, did_you_mean
from deadband.grammar import STREAM_CLAUSES

__all__ = ["stream_of"]

_EVENT_TIMES = {*exp.DataType.NUMERIC_TYPES, *exp.DataType.TEMPORAL_TYPES}


def stream_of(statement: ast.CreateStream) -> Stream:
    """The stream a CREATE STREAM declares."""
    columns: dict[str, str] = {}
    types: dict[str, exp.DataType] = {}
    for column in statement.columns:
        if column.name.key in types:
            raise DeadbandError(
                f"column {column.name.text} is declared twice", column.name.span, hint="keep one of them"
            )
        if column.name.key.startswith("__"):
            hint = "leave the underscores out"
            raise DeadbandError("column names that begin with __ are reserved", column.name.span, hint=hint)
        types[column.name.key] = _type(column.type)
        columns[column.name.text] = types[column.name.key].sql("spark")
    if statement.timestamp_by is None:
        raise DeadbandError(
            f"stream {statement.name.text} has no event time",
            statement.name.span,
            hint="add TIMESTAMP BY and a timestamp, date or number column",
        )
    time = _column(statement.timestamp_by, columns)
    if types[time].this not in _EVENT_TIMES:
        raise DeadbandError(
            f"event time must be a timestamp, a date or a number, not {types[time].sql('spark')}",
            statement.timestamp_by.span,
            hint="declare the column with such a type; sources are cast to it",
        )
    key = tuple(_column(k, columns) for k in statement.key)
    for name in statement.key:
        if name.key == time:
            raise DeadbandError("the event time cannot be part of the key", name.span, hint="a key has one row a tick")
    for i, name in enumerate(statement.key):
        if name.key in key[:i]:
            raise DeadbandError(f"{name.text} stands in the key twice", name.span, hint="keep one of them")
    return Stream(
        name=statement.name.text,
        columns=columns,
        key=key,
        timestamp=time,
        lateness=0.0 if statement.lateness is None else statement.lateness.seconds,
        source_by=tuple(_column(s, columns) for s in statement.source_by),
        delete_when=_condition(statement, columns),
        pull_every=None if statement.pull_every is None else statement.pull_every.seconds,
        pull_span=None if statement.pull_every is None else statement.pull_every.span,
        format=None if statement.using is None else statement.using.text,
        options=source_options(statement),
        message_cost=message_cost(statement.options, columns),
        change_rate=change_rate(statement.options, columns),
        span=statement.span,
    )


def _type(sql: ast.Sql) -> exp.DataType:
    more = re.search(r"\s(NOT\s+NULL|NULL|DEFAULT|COMMENT|PRIMARY|UNIQUE|CHECK)\b", sql.text, re.I)
    if more:
        span = sql.span.within(more.start(1), len(sql.text))
        raise DeadbandError(f"unexpected {more[1].upper()}", span, hint="a column of a stream is a name and a type")
    text = re.sub(r"\bDOUBLE\s+PRECISION\b", "DOUBLE", sql.text, flags=re.I)
    found: exp.DataType | None
    try:
        found = exp.DataType.build(text, dialect="spark")
    except (SqlglotError, ValueError, AttributeError):
        found = None
    if found is None or found.this in (exp.DataType.Type.UNKNOWN, exp.DataType.Type.USERDEFINED):
        hint = did_you_mean(sql.text, ("STRING", "DOUBLE", "BIGINT", "INT", "TIMESTAMP", "DATE", "BOOLEAN", "DECIMAL"))
        raise DeadbandError(f"unknown type {sql.text}", sql.span, hint=hint or "use a Spark SQL type")
    return found


def _column(name: ast.Name, columns: Iterable[str]) -> str:
    if name.key not in (c.lower() for c in columns):
        raise DeadbandError(
            f"unknown column {name.text}",
            name.span,
            detail=f"the stream has {', '.join(columns)}",
            hint=did_you_mean(name.text, columns),
        )
    return name.key


def _condition(statement: ast.CreateStream, columns: dict[str, str]) -> str | None:
    sql = statement.delete_when
    if sql is None:
        return None
    if not statement.key:
        raise DeadbandError("DELETE WHEN needs a KEY", sql.span, hint="only the row of a key can be removed")
    tree = parse_sql(sql, clauses=STREAM_CLAUSES)
    if isinstance(tree, exp.Query) or tree.find(exp.Query, exp.AggFunc, exp.Window) or not _is_condition(tree, columns):
        raise DeadbandError(
            "DELETE WHEN takes a condition on one row", sql.span, hint="for example DELETE WHEN price IS NULL"
        )
    for column in tree.find_all(exp.Column):
        if column.table and column.table.lower() != statement.name.key:
            hint = "DELETE WHEN sees the columns of the row only"
            raise DeadbandError(f"unknown relation {column.table}", span_of(column, sql), hint=hint)
        _column(ast.Name(column.name, span_of(column, sql)), columns)
        column.set("table", None)
    return tree.sql("spark")


def _is_condition(tree: exp.Expr, columns: dict[str, str]) -> bool:
    """False where it is plain that the tree is no truth value."""
    tree = tree.unnest()
    if isinstance(tree, exp.Column):
        return {c.lower(): t for c, t in columns.items()}.get(tree.name.lower(), "BOOLEAN") == "BOOLEAN"
    if isinstance(tree, exp.Binary):
        return isinstance(tree, exp.Predicate | exp.Connector)
    return not isinstance(tree, exp.Literal | exp.Neg | exp.Alias)
