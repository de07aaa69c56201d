"""Queries that differ only in literals bind once.

A body's signature is its tokens with the literals taken out. The first body of a signature is bound in full and tells
which of its literals may vary (the parameters); literals that can change the shape (GROUP BY 1, LIMIT, a literal inside
a feature) stay in the signature. A later body of the same signature costs one tokenizer run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from deadband.compiler import ast
from deadband.compiler.bind.block import Block, NotFlat, block_of
from deadband.compiler.bind.body import body_of, body_tokens, too_deep
from deadband.compiler.bind.extremum_aggregate import not_a_number
from deadband.compiler.bind.linear_form import NotAffine
from deadband.compiler.bind.shapes import shape_of
from deadband.compiler.catalog import Catalog
from deadband.compiler.logical import Body, ExtremumAggregate, LinearAggregate, Shape

__all__ = ["PARAMETERS", "QUERY", "Template", "Templates", "parameterised", "shape_with"]

Literal: TypeAlias = str | int | float

PARAMETERS = "__params"  # the table of a folded group: one row per query, QUERY and p0, p1, …
QUERY = "__query"
_ALIAS = "__p"

_LITERALS = {TokenType.NUMBER, TokenType.STRING}
_QUOTED = {
    TokenType.IDENTIFIER,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.BYTE_STRING,
    TokenType.BIT_STRING,
}

# A literal under nothing else may become a column without changing what the query is.
_TRANSPARENT = (
    exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE,
    exp.Between, exp.In, exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Coalesce, exp.Abs, exp.Where, exp.Join,
    exp.Sum, exp.Avg, exp.Count, exp.Min, exp.Max, exp.Filter, exp.Alias,
)  # fmt: skip


@dataclass(frozen=True)
class Template:
    """A bound body and the places of the literals that may vary."""

    body: Body
    shape: Shape
    not_linear: NotAffine | None  # what COHERENCY trips over
    not_items: NotAffine | None  # what PRECISION trips over
    sql: ast.Sql
    starts: tuple[int, ...]  # where the parameters stand in the first text
    types: tuple[str, ...]  # their Spark types
    select: exp.Select | None = field(repr=False, compare=False, default=None)  # the flat block, where there is one


class Templates:
    """The bodies bound so far, by signature."""

    def __init__(self) -> None:
        self._version = -1
        self._parameters: dict[tuple, tuple[int, ...]] = {}
        self._templates: dict[tuple, Template] = {}

    def bind(self, sql: ast.Sql, catalog: Catalog, bounded: bool) -> tuple[Template, tuple[Literal, ...]]:
        """The template of a body and the values of its parameters; bounded where a clause has features kept."""
        if catalog.version != self._version:
            self._parameters.clear()
            self._templates.clear()
        tokens = body_tokens(sql)
        signature = (bounded, *[_sign(t) for t in tokens])
        parameters = self._parameters.get(signature)
        template = None
        if parameters is not None:
            template = self._templates.get((signature, _fixed(tokens, parameters)))
        if template is None or parameters is None:
            template = _bind(sql, catalog, tokens, bounded)
            by_start = {t.start: i for i, t in enumerate(tokens)}
            found = tuple(by_start[s] for s in template.starts)
            if parameters is None:
                parameters = self._parameters[signature] = found
            if parameters == found:
                self._templates[signature, _fixed(tokens, parameters)] = template
            else:
                parameters = found
        self._version = catalog.version  # after binding: looking tables up may have grown the catalog
        return template, tuple([_value(tokens[i]) for i in parameters])

    def alone(self, sql: ast.Sql, catalog: Catalog) -> Template:
        """The template of a body by itself."""
        return _bind(sql, catalog, body_tokens(sql), bounded=True)


def parameterised(node: exp.Expr, starts: tuple[int, ...]) -> exp.Expr:
    """The node with its parameters read from the table PARAMETERS."""
    places = {s: i for i, s in enumerate(starts)}

    def replace(n: exp.Expr) -> exp.Expr:
        if isinstance(n, exp.Literal) and n.meta.get("start") in places:
            return exp.column(f"p{places[n.meta['start']]}", table=_ALIAS)
        return n

    return node.copy().transform(replace)


def shape_with(template: Template, literals: tuple[Literal, ...]) -> Shape:
    """The shape of a body of this template, in its own literals."""
    values = dict(zip(template.starts, literals, strict=True))

    def replace(n: exp.Expr) -> exp.Expr:
        if not isinstance(n, exp.Literal) or n.meta.get("start") not in values:
            return n
        value = values[n.meta["start"]]
        return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value)

    body = template.body
    query = body.query.copy().transform(replace)
    assert isinstance(query, exp.Query)
    return shape_of(Body(query, body.streams, body.tables, body.columns)).shape


def _bind(sql: ast.Sql, catalog: Catalog, tokens: list[Token], bounded: bool) -> Template:
    try:
        body = body_of(sql, catalog, tokens)
        shape, not_linear, not_items = shape_of(body)
        if bounded and isinstance(shape, ExtremumAggregate):
            not_items = not_a_number(body, catalog.schema)
        block = block_of(body)
    except NotFlat:
        return Template(body, shape, not_linear, not_items, sql, (), ())
    except RecursionError:
        raise too_deep(sql) from None
    literals = {t.start for t in tokens if t.token_type in _LITERALS}
    in_features = set()
    if isinstance(shape, LinearAggregate) or (bounded and isinstance(shape, ExtremumAggregate)):
        in_features = {n.meta.get("start") for f in shape.features for n in f.find_all(exp.Literal)}
    places = {
        n.meta["start"]: n
        for n in _varying(block.select, _decimals(block, catalog))
        if n.meta.get("start") in literals and n.meta["start"] not in in_features
    }
    starts = tuple(sorted(places))
    types = tuple(_TYPES[_category(places[s].this, places[s].is_string)] for s in starts)
    return Template(body, shape, not_linear, not_items, sql, starts, types, block.select)


def _varying(select: exp.Select, decimals: set[tuple[str, str]]) -> Iterator[exp.Expr]:
    """The literals that may become columns: under transparent nodes only, in an aggregate or in a condition."""
    stack = [(child, False, False, False, False) for child in select.iter_expressions()]
    while stack:
        node, in_aggregate, in_condition, scales, exact = stack.pop()
        if isinstance(node, exp.Literal):
            category = _category(node.this, node.is_string)
            # a coefficient in a condition makes a range, and zero unmakes it
            here = not scales if in_condition else in_aggregate
            # exact decimals have a precision of their own, and a parameter is a double
            if here and category in _TYPES and not (exact and category == _DECIMAL):
                yield node
        elif isinstance(node, _TRANSPARENT):
            if not exact and not isinstance(node, exp.Connector | exp.Where | exp.Join):
                exact = any((c.table, c.name) in decimals for c in node.find_all(exp.Column)) if decimals else False
            in_aggregate |= isinstance(node, exp.AggFunc)
            in_condition |= isinstance(node, exp.Where | exp.Join)
            scales |= isinstance(node, exp.Mul | exp.Div | exp.Mod)
            stack += [(c, in_aggregate, in_condition, scales, exact) for c in node.iter_expressions()]


def _decimals(block: Block, catalog: Catalog) -> set[tuple[str, str]]:
    """The columns of the block that are exact decimals."""
    types: dict[str, dict[str, str] | None] = {alias: stream.types for alias, stream in block.streams.items()}
    for alias, table in block.tables.items():
        relation = catalog.relation(table)
        types[alias] = None if relation is None else relation.types
    return {
        (a, c) for a, ts in types.items() for c, t in (ts or {}).items() if t.lower().startswith(("decimal", "numeric"))
    }


# ---------------------------------------------------------------- literals

_STRING, _INT, _DECIMAL, _DOUBLE = "?string", "?int", "?decimal", "?double"
_TYPES = {_STRING: "STRING", _INT: "INT", _DECIMAL: "DOUBLE", _DOUBLE: "DOUBLE"}
_DIGITS = frozenset("0123456789")


def _category(text: str, is_string: bool) -> str:
    """What literals of one template have in common; a number that is none of these stands for itself."""
    if is_string:
        return _STRING
    if _DIGITS.issuperset(text):
        return _INT if len(text) < 10 else text
    if _DIGITS.issuperset(text.replace(".", "", 1)) and len(text) > 1:
        return _DECIMAL
    return _DOUBLE if re.fullmatch(r"[0-9]*\.?[0-9]+[eE][+-]?[0-9]{1,2}", text) else text


def _sign(token: Token) -> str:
    """What a token adds to the signature."""
    if token.token_type in _LITERALS:
        return _category(token.text, token.token_type == TokenType.STRING)
    return f"{token.token_type}:{token.text}" if token.token_type in _QUOTED else token.text


def _value(token: Token) -> Literal:
    if token.token_type == TokenType.STRING:
        return token.text
    return int(token.text) if _DIGITS.issuperset(token.text) else float(token.text)


def _fixed(tokens: list[Token], parameters: tuple[int, ...]) -> tuple[str, ...]:
    free = set(parameters)
    return tuple([t.text for i, t in enumerate(tokens) if t.token_type in _LITERALS and i not in free])
