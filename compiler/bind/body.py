"""SQL text to a qualified sqlglot tree, with every mistake placed in the user's text.

After: every column is alias.column of a known relation, every output is named, stars are expanded.
"""

from __future__ import annotations

import logging
import re

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokens import Token, TokenType

from deadband.compiler import ast
from deadband.compiler.catalog import Catalog, Stream, Table
from deadband.compiler.errors import DeadbandError, Span, did_you_mean, nearest
from deadband.compiler.logical import Body
from deadband.grammar import CLAUSES as CLAUSE_WORDS

__all__ = ["body_of", "parse_sql", "span_of", "tokens_of"]

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings are about SQL we check ourselves

_DIALECT = Spark()
_NOT_AFTER_COMMA = {TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.WHERE, TokenType.GROUP_BY}


def tokens_of(sql: ast.Sql) -> list[Token]:
    try:
        return _DIALECT.tokenize(sql.text)
    except SqlglotError as error:
        raise DeadbandError("this SQL cannot be read", sql.span, detail=_first_line(error)) from None


def parse_sql(sql: ast.Sql, tokens: list[Token] | None = None) -> exp.Expression:
    """The sqlglot tree of a text that must be one query or expression."""
    tokens = tokens_of(sql) if tokens is None else tokens
    for one, two in zip(tokens, tokens[1:], strict=False):
        if one.token_type == TokenType.COMMA and two.token_type in _NOT_AFTER_COMMA:
            raise DeadbandError(f"unexpected {two.text} after a comma", sql.span.within(one.start, one.end + 1))
    try:
        found = [e for e in _DIALECT.parser().parse(tokens, sql.text) if e is not None]
    except ParseError as error:
        raise _parse_error(sql, tokens, error) from None
    except RecursionError:
        raise DeadbandError("this SQL is nested too deeply", sql.span, hint="split it with WITH …") from None
    except Exception as error:  # sqlglot lets a few of its own slips through on broken SQL
        raise DeadbandError("this SQL cannot be read", sql.span, detail=_first_line(error)) from None
    if len(found) != 1:
        raise DeadbandError("expected one query", sql.span)
    return found[0]


def body_of(sql: ast.Sql, catalog: Catalog, tokens: list[Token] | None = None) -> Body:
    """The query of a continuous query, qualified against the catalog."""
    tokens = tokens_of(sql) if tokens is None else tokens
    tree = parse_sql(sql, tokens)
    if not isinstance(tree, exp.Query):
        raise DeadbandError("expected a SELECT", sql.span, hint="a continuous query is SELECT …, or WITH … SELECT …")
    _check_slid_clause(sql, tree)
    relations = _relations(sql, tree, catalog)
    streams = {k: r for k, r in relations.items() if isinstance(r, Stream)}
    columns = _output_names(tree)
    try:
        query = qualify(
            tree,
            schema=catalog.schema,
            dialect="spark",
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
    except SqlglotError as error:
        raise _qualify_error(sql, tree, relations, error) from None
    except RecursionError:
        raise DeadbandError("this SQL is nested too deeply", sql.span, hint="split it with WITH …") from None
    except Exception as error:  # as above
        raise DeadbandError("this SQL cannot be understood", sql.span, detail=_first_line(error)) from None
    _check_columns(sql, query, catalog)
    names = _named(query, columns)
    return Body(query, tuple(streams.values()), tuple(k for k in relations if k not in streams), names)


def span_of(node: exp.Expression, sql: ast.Sql) -> Span:
    """Where a node was written: from its first to its last descendant that knows its place."""
    places = [n.meta for n in node.walk() if "start" in n.meta]
    if not places:
        return span_of(node.parent, sql) if node.parent is not None else sql.span
    return sql.span.within(min(p["start"] for p in places), max(p["end"] for p in places) + 1)


# ---------------------------------------------------------------- names


def _relations(sql: ast.Sql, tree: exp.Query, catalog: Catalog) -> dict[str, Stream | Table]:
    """The streams and tables a body reads, by lower-case name."""
    found: dict[str, Stream | Table] = {}
    ctes = {c.alias.lower() for c in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = ".".join(p.name for p in table.parts).lower()
        if name in ctes or not name or isinstance(table.this, exp.Func):
            continue
        relation = catalog.relation(name)
        if relation is None:
            hint = did_you_mean(name, catalog.names())
            hint = hint or "declare it with CREATE STREAM or CREATE TABLE, or give its columns: compile(sql, tables={…})"
            raise DeadbandError(f"unknown stream or table {name}", span_of(table, sql), hint=hint)
        found[name] = relation
    return found


def _check_columns(sql: ast.Sql, query: exp.Query, catalog: Catalog) -> None:
    for scope in traverse_scope(query):
        known: dict[str, list[str] | None] = {}
        for alias, source in scope.sources.items():
            if isinstance(source, exp.Table):
                relation = catalog.relation(".".join(p.name for p in source.parts))
                known[alias] = None if relation is None or relation.types is None else list(relation.types)
            else:
                known[alias] = [s.lower() for s in source.expression.named_selects]
        outputs = {s.lower() for s in query.named_selects} | {s.lower() for s in scope.expression.named_selects}
        for column in scope.columns:
            if column.table:
                names = known.get(column.table)
                if names is not None and column.name.lower() not in names:
                    raise _unknown_column(sql, column, {column.table: names})
            elif column.name.lower() not in outputs or column.find_ancestor(exp.Order) is None:
                if sum(names is None for names in known.values()) > 1:
                    raise DeadbandError(
                        f"column {column.name} could belong to several tables",
                        span_of(column, sql),
                        hint="write table.column: the columns of some tables here are not known",
                    )
                raise _unknown_column(sql, column, known)


def _unknown_column(sql: ast.Sql, column: exp.Column, known: dict[str, list[str] | None]) -> DeadbandError:
    names = [n for ns in known.values() for n in ns or ()]
    detail = "; ".join(f"{alias} has {', '.join(ns)}" for alias, ns in known.items() if ns)
    return DeadbandError(
        f"unknown column {column.name}", span_of(column, sql), detail=detail or None, hint=did_you_mean(column.name, names)
    )


def _output_names(tree: exp.Query) -> list[str | None]:
    """Output names in the user's spelling; None where qualify has to find one."""
    return [None if isinstance(s, exp.Star) or s.is_star else (s.alias_or_name or None) for s in tree.selects]


def _named(query: exp.Query, written: list[str | None]) -> tuple[str, ...]:
    names = list(query.named_selects)
    if len(names) == len(written):
        names = [w or n for w, n in zip(written, names, strict=True)]
    return tuple(names)


# ---------------------------------------------------------------- errors


def _check_slid_clause(sql: ast.Sql, tree: exp.Query) -> None:
    """A clause word that became the alias of the last table: FROM t MEMORY."""
    for table in tree.find_all(exp.Table):
        alias = table.args.get("alias")
        if alias is None or alias.name.upper() not in CLAUSE_WORDS:
            continue
        place = span_of(alias, sql)
        if not sql.text[place.end - sql.span.start :].strip() and not any(
            c.table.lower() == alias.name.lower() for c in tree.find_all(exp.Column)
        ):
            raise DeadbandError(
                f"{alias.name.upper()} here would be an alias of {table.name}",
                place,
                hint=f"complete the clause, for example {_EXAMPLES[alias.name.upper()]}; write AS for an alias",
            )


_EXAMPLES = {
    "COHERENCY": "COHERENCY value WITHIN 80",
    "PRECISION": "PRECISION value WITHIN 5",
    "FIDELITY": "FIDELITY 98%",
    "RESPONSE": "RESPONSE WITHIN INTERVAL '12' SECONDS",
    "NOTIFY": "NOTIFY WHEN value > 100",
    "MEMORY": "MEMORY 10000 ROWS",
    "EMIT": "EMIT EVERY INTERVAL '1' MINUTE",
    "INTO": "INTO parquet OPTIONS (path 'out')",
    "WITHIN": "COHERENCY value WITHIN 80",
}


def _parse_error(sql: ast.Sql, tokens: list[Token], error: ParseError) -> DeadbandError:
    """sqlglot's complaint at its place, or at the clause word that was misspelt before it."""
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    place = next((t for t in tokens if t.line == line and t.col == column), tokens[-1] if tokens else None)
    depth, tail = 0, []
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and re.fullmatch(r"\w+", token.text):
            tail.append(token)
    for token in tail[-8:]:
        meant = nearest(token.text, CLAUSE_WORDS, cutoff=0.75)
        if meant and token.token_type != TokenType.INTO:
            word = meant[0]
            clause = f"{token.text} is not a clause here"
            return DeadbandError(clause, sql.span.within(token.start, token.end + 1), hint=f"write for example {_EXAMPLES[word]}")
    span = sql.span if place is None else sql.span.within(place.start, place.end + 1)
    detail = re.sub(r"<class '[\w.]*\.(\w+)'>", r"\1", str(first.get("description") or _first_line(error)))
    return DeadbandError("this is not valid SQL", span, detail=detail)


def _qualify_error(
    sql: ast.Sql, tree: exp.Query, relations: dict[str, Stream | Table], error: SqlglotError
) -> DeadbandError:
    message = _first_line(error)
    found = re.search(r"(?:Unknown column: |[Cc]olumn '\"?)([\w` .]+?)\"?(?:'|$| could)", message)
    if found:
        name = found[1].split(".")[-1].strip("`\" ").lower()
        for column in tree.find_all(exp.Column):
            if column.name.lower() == name:
                known = {k: list(r.types) if r.types else None for k, r in relations.items()}
                return _unknown_column(sql, column, known)
    return DeadbandError("this SQL cannot be understood", sql.span, detail=message)


def _first_line(error: Exception) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", str(error)).split("\n")[0] or type(error).__name__
