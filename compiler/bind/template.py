"""Queries that differ only in literals bind once.

A body's signature is its tokens with the literals taken out. The first body of a signature is bound in full and tells
which of its literals may vary (the parameters); literals that can change the shape (GROUP BY 1, LIMIT, a literal inside
a feature) stay in the signature. A later body of the same signature costs one tokenizer run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from deadband.compiler import ast
from deadband.compiler.bind.block import NotFlat, block_of
from deadband.compiler.bind.body import body_of, tokens_of
from deadband.compiler.bind.linear_form import NotAffine
from deadband.compiler.bind.shapes import shape_of
from deadband.compiler.catalog import Catalog
from deadband.compiler.logical import Body, LinearAggregate, Shape

__all__ = ["PARAMETERS", "QUERY", "Template", "Templates", "parameterised"]

Literal: TypeAlias = str | int | float

PARAMETERS = "__params"  # the table of a folded group: one row per query, QUERY and p0, p1, …
QUERY = "__query"
_ALIAS = "__p"

_LITERALS = {TokenType.NUMBER, TokenType.STRING}

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
    not_linear: NotAffine | None
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

    def bind(self, sql: ast.Sql, catalog: Catalog) -> tuple[Template, tuple[Literal, ...]]:
        """The template of a body and the values of its parameters."""
        if catalog.version != self._version:
            self._parameters.clear()
            self._templates.clear()
        tokens = tokens_of(sql)
        signature = tuple([_category(t) if t.token_type in _LITERALS else t.text for t in tokens])
        parameters = self._parameters.get(signature)
        template = None
        if parameters is not None:
            template = self._templates.get((signature, _fixed(tokens, parameters)))
        if template is None:
            template = _bind(sql, catalog, tokens)
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


def parameterised(node: exp.Expression, starts: tuple[int, ...]) -> exp.Expression:
    """The node with its parameters read from the table PARAMETERS."""
    places = {s: i for i, s in enumerate(starts)}

    def replace(n: exp.Expression) -> exp.Expression:
        if isinstance(n, exp.Literal) and n.meta.get("start") in places:
            return exp.column(f"p{places[n.meta['start']]}", table=_ALIAS)
        return n

    return node.copy().transform(replace)


def _bind(sql: ast.Sql, catalog: Catalog, tokens: list[Token]) -> Template:
    body = body_of(sql, catalog, tokens)
    shape, not_linear = shape_of(body)
    try:
        select = block_of(body).select
    except NotFlat:
        return Template(body, shape, not_linear, sql, (), ())
    in_features = set()
    if isinstance(shape, LinearAggregate):
        in_features = {n.meta.get("start") for f in shape.features for n in f.find_all(exp.Literal)}
    places = {
        n.meta["start"]: n
        for n in select.find_all(exp.Literal)
        if "start" in n.meta and n.meta["start"] not in in_features and _may_vary(n)
    }
    starts = tuple(sorted(places))
    return Template(body, shape, not_linear, sql, starts, tuple(_type(places[s]) for s in starts), select)


def _may_vary(literal: exp.Expression) -> bool:
    node, in_aggregate, in_condition = literal, False, False
    while node.parent is not None and not isinstance(node.parent, exp.Select):
        node = node.parent
        if not isinstance(node, _TRANSPARENT):
            return False
        in_aggregate |= isinstance(node, exp.AggFunc)
        in_condition |= isinstance(node, exp.Where | exp.Join)
    return in_aggregate or in_condition


def _category(token: Token) -> str:
    if token.token_type == TokenType.STRING:
        return "?string"
    return "?int" if token.text.isdigit() and len(token.text) < 10 else "?double"


def _type(literal: exp.Expression) -> str:
    if literal.is_string:
        return "STRING"
    return "INT" if literal.this.isdigit() and len(literal.this) < 10 else "DOUBLE"


def _value(token: Token) -> Literal:
    if token.token_type == TokenType.STRING:
        return token.text
    return int(token.text) if token.text.isdigit() and len(token.text) < 10 else float(token.text.rstrip("LlDdFf"))


def _fixed(tokens: list[Token], parameters: tuple[int, ...]) -> tuple[str, ...]:
    free = set(parameters)
    return tuple([t.text for i, t in enumerate(tokens) if t.token_type in _LITERALS and i not in free])
