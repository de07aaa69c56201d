"""The weights query of an ItemAggregate: which items count in which groups, and with what coefficients.

One row per (item, group): the joined rows it stands for, and for every part of every answer the count of its rows that
are whole (nothing NULL), the sums of their coefficients and of their constants; for MIN and MAX, where rows are not
added up, the distinct coefficients and constants of the whole ones. The stream is replaced by its keys.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from deadband.compiler.bind.linear_form import ZERO
from deadband.compiler.bind.template import QUERY, Template, parameterised
from deadband.compiler.logical import Answer, ItemAggregate, Part
from deadband.compiler.lower.folded import parameter_join
from deadband.compiler.physical import Candidate, Edge, Slot

__all__ = ["ITEM", "KEYS", "Weighed", "weights_query"]

KEYS = "__keys"  # the stream's keys and ITEM, their number
ITEM = "__item"


class Weighed(NamedTuple):
    """The query, the numbers to keep per item, which column weighs which number into which total, and what competes."""

    query: exp.Select
    slots: tuple[Slot, ...]
    edges: tuple[Edge, ...]
    candidates: tuple[Candidate, ...]


def weights_query(shape: ItemAggregate, template: Template, fold: bool) -> Weighed:
    """The weights query of a shape, for all queries of its group."""
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
    totals = _Totals(shape)
    select = select.select(*columns, *totals.columns, copy=False).group_by(*groups, copy=False)
    query = parameterised(select, template.starts) if fold else select
    assert isinstance(query, exp.Select)
    return Weighed(query, tuple(totals.slots), tuple(totals.edges), tuple(totals.candidates))


class _Totals:
    """The columns of a shape's answers, and what they stand for."""

    def __init__(self, shape: ItemAggregate):
        self.features = shape.features
        self.slots: dict[Slot, int] = {Slot(None, ()): 0}
        self.columns: list[exp.Expr] = []
        self.edges = [Edge("rows", 0, "rows", -1)]
        self.candidates: list[Candidate] = []
        for a, answer in enumerate(shape.answers):
            add = self._competing if answer.kind in ("MIN", "MAX") else self._added
            for p, part in enumerate(answer.parts):
                needs = tuple(sorted(self.features.index(f) for f, _ in part.terms))
                add(answer, a, p, part, needs)

    def _slot(self, feature: exp.Expr | None, needs: tuple[int, ...]) -> int:
        slot = Slot(None if feature is None else self.features.index(feature), needs)
        return self.slots.setdefault(slot, len(self.slots))

    def _added(self, answer: Answer, a: int, p: int, part: Part, needs: tuple[int, ...]) -> None:
        whole = _whole(part)

        def add(column: str, value: exp.Expr, feature: exp.Expr | None, total: str) -> None:
            self.columns.append(exp.alias_(value, column))
            self.edges.append(Edge(column, self._slot(feature, needs), total, a))

        add(f"n_{a}_{p}", exp.Count(this=_where(whole, exp.Literal.number(1))), None, "count")
        if answer.kind == "COUNT":
            return
        if part.constant is not ZERO:
            add(f"c_{a}_{p}", _sum(whole, part.constant), None, "sum")
        for k, (feature, coefficient) in enumerate(part.terms):
            add(f"w_{a}_{p}_{k}", _sum(whole, coefficient), feature, "sum")

    def _competing(self, answer: Answer, a: int, p: int, part: Part, needs: tuple[int, ...]) -> None:
        column = f"m_{a}_{p}"
        weights = [("c", part.constant), *((f"w{k}", c) for k, (_, c) in enumerate(part.terms))]
        fields = [x for name, w in weights for x in (exp.Literal.string(name), exp.cast(w.copy(), "DOUBLE"))]
        struct = exp.Anonymous(this="NAMED_STRUCT", expressions=fields)
        self.columns.append(exp.alias_(exp.ArrayUniqueAgg(this=_where(_whole(part), struct)), column))
        flag = self._slot(None, needs)
        slots = tuple(self._slot(feature, needs) for feature, _ in part.terms)
        self.candidates.append(Candidate(column, a, flag, slots))


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
