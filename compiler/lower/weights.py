"""The weights query of a LinearAggregate: which items count in which groups, and with what coefficients.

One row per (item, group): the joined rows it stands for, and for every part of every answer the count of its rows that
are whole (nothing NULL), the sums of their coefficients and of their constants. The stream is replaced by its keys.
"""

from __future__ import annotations

from sqlglot import exp

from deadband.compiler.bind.linear_form import ZERO
from deadband.compiler.bind.template import QUERY, Template, parameterised
from deadband.compiler.logical import LinearAggregate, Part
from deadband.compiler.lower.folded import parameter_join
from deadband.compiler.physical import Edge, Slot

__all__ = ["ITEM", "KEYS", "weights_query"]

KEYS = "__keys"  # the stream's keys and ITEM, their number
ITEM = "__item"


def weights_query(shape: LinearAggregate, template: Template, fold: bool) -> tuple[exp.Select, list[Slot], list[Edge]]:
    """The query, the numbers to keep per item, and which column weighs which number into which total."""
    select = shape.select.copy()
    for part in ("expressions", "group", "order", "hint", "sort", "cluster", "distribute"):
        select.set(part, None)
    for table in select.find_all(exp.Table):
        if table.alias_or_name == shape.alias:
            table.replace(exp.to_table(KEYS, alias=shape.alias))
    item = exp.column(ITEM, table=shape.alias)
    columns: list[exp.Expr] = [exp.alias_(item, ITEM)]
    groups: list[exp.Expr] = [item]
    if fold:
        parameter_join(select)
        columns.append(exp.alias_(exp.column(QUERY, table="__p"), QUERY))
        groups.append(exp.column(QUERY, table="__p"))
    columns += [exp.alias_(g.copy(), f"g{i}") for i, g in enumerate(shape.groups)]
    groups += [g.copy() for g in shape.groups]
    columns += [
        exp.alias_(o.expression.copy(), f"o{i}") for i, o in enumerate(shape.outputs) if o.expression is not None
    ]
    columns.append(exp.alias_(exp.Count(this=exp.Star()), "rows"))
    totals, slots, edges = _totals(shape)
    select = select.select(*columns, *totals, copy=False).group_by(*groups, copy=False)
    query = parameterised(select, template.starts) if fold else select
    assert isinstance(query, exp.Select)
    return query, slots, edges


def _totals(shape: LinearAggregate) -> tuple[list[exp.Expr], list[Slot], list[Edge]]:
    features = shape.features
    slots: dict[Slot, int] = {Slot(None, ()): 0}
    columns: list[exp.Expr] = []
    edges = [Edge("rows", 0, "rows", -1)]

    def add(column: str, value: exp.Expr, slot: Slot, total: str, answer: int) -> None:
        columns.append(exp.alias_(value, column))
        edges.append(Edge(column, slots.setdefault(slot, len(slots)), total, answer))

    for a, answer in enumerate(shape.answers):
        for p, part in enumerate(answer.parts):
            needs = tuple(sorted(features.index(f) for f, _ in part.terms))
            whole = _whole(part)
            add(f"n_{a}_{p}", exp.Count(this=_where(whole, exp.Literal.number(1))), Slot(None, needs), "count", a)
            if answer.kind == "COUNT":
                continue
            if part.constant is not ZERO:
                add(f"c_{a}_{p}", _sum(whole, part.constant), Slot(None, needs), "sum", a)
            for k, (feature, coefficient) in enumerate(part.terms):
                add(f"w_{a}_{p}_{k}", _sum(whole, coefficient), Slot(features.index(feature), needs), "sum", a)
    return columns, list(slots), edges


def _whole(part: Part) -> exp.Expr | None:
    """The condition under which a joined row counts through this part."""
    tests = [] if part.condition is None else [part.condition.copy()]
    for value in (part.constant, *(c for _, c in part.terms)):
        if not _never_null(value):
            tests.append(exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null())))
    return exp.and_(*tests) if tests else None


def _never_null(value: exp.Expr) -> bool:
    """Numbers, as they are written; a parameter that takes the place of one is never NULL either."""
    return isinstance(value, exp.Literal) or (isinstance(value, exp.Neg | exp.Paren) and _never_null(value.this))


def _where(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    return value.copy() if condition is None else exp.Case().when(condition.copy(), value.copy())


def _sum(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    return exp.Sum(this=_where(condition, exp.cast(value.copy(), "DOUBLE")))
