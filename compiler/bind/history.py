"""ANALYZE STREAM s FROM …: the rows to look at, as a query over tables."""

from __future__ import annotations

from sqlglot import exp

from deadband.compiler import ast
from deadband.compiler.bind.body import body_tokens, parse_sql, span_of
from deadband.compiler.bind.names import check_relations, name_of, tables_read
from deadband.compiler.catalog import Catalog, Stream
from deadband.compiler.errors import DeadbandError

__all__ = ["history_query"]


def history_query(statement: ast.AnalyzeStream, catalog: Catalog) -> exp.Query | None:
    """The query that reads the history; None: it is the stream's own source."""
    stream = catalog.stream(statement.stream)
    if not stream.key:
        raise DeadbandError(
            f"{stream.name} has no KEY, so it has no items to analyse",
            statement.stream.span,
            hint="statistics are kept per key; declare one with KEY (…)",
        )
    if statement.history is None:
        if stream.format is None:
            raise DeadbandError(
                f"{stream.name} has no history of its own",
                statement.stream.span,
                detail="its rows are given to replay or start, which comes later",
                hint=f"write ANALYZE STREAM {stream.name} FROM a table with such rows, or declare a source with USING",
            )
        return None
    sql = statement.history
    query = _query(sql)
    relations = check_relations(sql, query, catalog)
    for table in tables_read(query):
        relation = relations[name_of(table)]
        if isinstance(relation, Stream):
            own = relation is stream and stream.format is not None
            raise DeadbandError(
                f"{relation.name} is a stream, not a table",
                span_of(table.this, sql),
                hint=f"write ANALYZE STREAM {stream.name} to look at its own source" if own else None,
            )
    return query


def _query(sql: ast.Sql) -> exp.Query:
    """A name stands for all rows of its table."""
    tree = parse_sql(sql, body_tokens(sql))
    if isinstance(tree, exp.Column) and all(isinstance(p, exp.Identifier) for p in tree.parts):
        parts = dict(zip(("this", "db", "catalog"), (p.copy() for p in reversed(tree.parts))))
        tree = exp.select("*").from_(exp.Table(**parts))
    if isinstance(tree, exp.Subquery):
        tree = tree.unnest()
    if not isinstance(tree, exp.Query):
        raise DeadbandError(
            "expected a table or a SELECT", sql.span, hint="write ANALYZE STREAM s FROM history, or FROM (SELECT …)"
        )
    return tree
