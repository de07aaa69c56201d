"""SQL text to a qualified sqlglot tree, with every mistake placed in the user's text.

After: every column is alias.column of a known relation, every output is named, stars are expanded.
"""

from __future__ import annotations

import logging
import re
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.tokens import Token, TokenType

from deadband.compiler import ast
from deadband.compiler.bind.names import check_columns, check_outputs, check_relations, unqualified
from deadband.compiler.bind.not_sql import not_sql, slid_clause
from deadband.compiler.bind.place import span_of
from deadband.compiler.catalog import Catalog, Stream
from deadband.compiler.errors import DeadbandError
from deadband.compiler.logical import Body
from deadband.grammar import CLAUSES

__all__ = ["body_of", "body_tokens", "parse_sql", "span_of", "tokens_of", "too_deep"]

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings are about SQL we check ourselves


class _Spark4(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar = ["\\", "'", '"']  # since Spark 4 'it''s' is one string, not two


_DIALECT = _Spark4()
_NAMES_IN_A_QUERY = {TokenType.INTO}
_NOT_AFTER_COMMA = {
    TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY,
}  # fmt: skip


def tokens_of(sql: ast.Sql) -> list[Token]:
    try:
        return _DIALECT.tokenize(sql.text)
    except SqlglotError as error:
        raise DeadbandError("this SQL cannot be read", sql.span, detail=_first_line(error), hint=_HINT) from None


def body_tokens(sql: ast.Sql) -> list[Token]:
    """The tokens of a query; words that only sqlglot keeps for itself are names there."""
    tokens = tokens_of(sql)
    for token in tokens:
        if token.token_type in _NAMES_IN_A_QUERY:
            token.token_type = TokenType.VAR
    return tokens


def parse_sql(sql: ast.Sql, tokens: list[Token] | None = None, clauses: dict[str, str] = CLAUSES) -> exp.Expr:
    """The sqlglot tree of a text that must be one query or expression; clauses are what may follow it."""
    tokens = tokens_of(sql) if tokens is None else tokens
    if clauses:  # in a plain Spark statement commas are Spark's business
        _check_commas(sql, tokens)
    try:
        found = [e for e in _DIALECT.parser().parse(tokens, sql.text) if e is not None]
    except ParseError as error:
        raise not_sql(sql, tokens, error, clauses) from None
    except RecursionError:
        raise too_deep(sql) from None
    except Exception as error:  # sqlglot lets a few of its own slips through on broken SQL
        raise DeadbandError("this SQL cannot be read", sql.span, detail=_first_line(error), hint=_HINT) from None
    if len(found) != 1:
        raise DeadbandError("expected one query", sql.span, hint="end a statement with ;")
    return found[0]


def body_of(sql: ast.Sql, catalog: Catalog, tokens: list[Token] | None = None) -> Body:
    """The query of a continuous query, qualified against the catalog."""
    tokens = body_tokens(sql) if tokens is None else tokens
    tree = parse_sql(sql, tokens)
    if not isinstance(tree, exp.Query):
        raise DeadbandError("expected a SELECT", sql.span, hint="a continuous query is SELECT …, or WITH … SELECT …")
    slid = slid_clause(sql, tree)
    if slid is not None:
        raise slid
    relations = check_relations(sql, tree, catalog)
    _check_aliases(sql, tree)
    streams = {k: r for k, r in relations.items() if isinstance(r, Stream)}
    columns = _output_names(tree)
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() == "mean" and len(call.expressions) == 1:  # Spark's other name of AVG
            call.replace(exp.Avg(this=call.expressions[0])).meta.update(call.meta)
    try:
        query = qualify(
            tree,
            schema=catalog.schema,
            dialect="spark",
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
        check_columns(sql, query, catalog)
    except SqlglotError as error:
        raise unqualified(sql, parse_sql(sql, tokens), catalog, _first_line(error)) from None
    except RecursionError:
        raise too_deep(sql) from None
    except DeadbandError:
        raise
    except Exception as error:  # as above
        raise DeadbandError("this SQL cannot be understood", sql.span, detail=_first_line(error), hint=_HINT) from None
    names = _named(query, columns)
    check_outputs(sql, query, names)
    return Body(query, tuple(streams.values()), tuple(k for k in relations if k not in streams), names)


def _output_names(tree: exp.Query) -> list[str | None]:
    """Output names in the user's spelling; None where qualify has to find one."""
    return [None if isinstance(s, exp.Star) or s.is_star else (s.alias_or_name or None) for s in tree.selects]


def _named(query: exp.Query, written: list[str | None]) -> tuple[str, ...]:
    names = list(query.named_selects)
    if len(names) == len(written):
        names = [w or n for w, n in zip(written, names, strict=True)]
    return tuple(names)


def too_deep(sql: ast.Sql) -> DeadbandError:
    return DeadbandError("this SQL is nested too deeply", sql.span, hint="split it with WITH …")


# ---------------------------------------------------------------- errors

_HINT = "the query is read as Spark SQL"


def _check_commas(sql: ast.Sql, tokens: list[Token]) -> None:
    """sqlglot lets a comma stand where nothing follows it."""
    for one, two in zip(tokens, [*tokens[1:], None]):
        if one.token_type == TokenType.COMMA and (two is None or two.token_type in _NOT_AFTER_COMMA):
            what = "unexpected , at the end" if two is None else f"unexpected , before {two.text}"
            raise DeadbandError(what, sql.span.within(one.start, one.end + 1), hint="leave the comma out")


def _check_aliases(sql: ast.Sql, tree: exp.Query) -> None:
    """sqlglot lets a number or a string be an alias."""
    for alias in tree.find_all(exp.Alias):
        name = alias.args.get("alias")
        if not isinstance(name, exp.Identifier) or not name.name or (re.match(r"\d", name.name) and not name.quoted):
            raise DeadbandError(
                "a name is missing after AS", span_of(alias, sql), hint="a name is a word, or anything in backticks"
            )


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0] or type(error).__name__
