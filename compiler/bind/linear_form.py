"""An expression as parts: coefficients · features + constant, each part under a static condition.

A feature is a function of one row of the stream; coefficients, constants and conditions read static columns and the
stream's key only. SUM(s * (p - c)) has the part {p: s} with constant -s·c, and a row counts only when s, p and c are
all there: splitting the sum otherwise changes rows in which one of them is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import TypeAlias

from sqlglot import exp

from deadband.compiler.logical import Part

__all__ = ["ZERO", "NotAffine", "counted", "extremum_form", "linear_form", "times"]

MAX_PARTS = 64


class NotAffine(Exception):
    """Which node is in the way, and why."""

    def __init__(self, node: exp.Expr, reason: str):
        super().__init__(reason)
        self.node = node
        self.reason = reason


def linear_form(node: exp.Expr, alias: str, values: frozenset[str]) -> tuple[Part, ...]:
    """The parts of an expression over the stream `alias` whose changing columns are `values`."""
    return _few(node, _Form(alias, values).parts(node))


def extremum_form(node: exp.Expr, alias: str, values: frozenset[str]) -> tuple[Part, ...]:
    """The same for MIN and MAX: what reads one row only is one feature, affine or not, in each case of a static CASE.

    MIN(x + y) has one filter of the whole width; as a sum it would have two, of half the width each.
    """
    return _few(node, _Extremum(alias, values).parts(node))


def times(part: Part, op: type[exp.Binary], number: exp.Expr) -> Part:
    """The part multiplied or divided by a number."""
    return _scaled(part, lambda c: _times(c, number) if op is exp.Mul else _ratio(c, number))


def _few(node: exp.Expr, parts: list[Part]) -> tuple[Part, ...]:
    if len(parts) > MAX_PARTS:
        raise NotAffine(node, f"it has {len(parts)} cases; at most {MAX_PARTS} can be kept")
    return tuple(parts)


def counted(part: Part) -> Part:
    """What COUNT keeps of a part: whether its features are there, whatever their type."""
    there = [
        (exp.Case().when(exp.Not(this=exp.Is(this=_wrap(f), expression=exp.Null())), _ONE.copy()), c)
        for f, c in part.terms
    ]
    return Part(part.condition, tuple(there), part.constant)


class _Form:
    def __init__(self, alias: str, values: frozenset[str]):
        self.alias = alias
        self.values = values

    def parts(self, node: exp.Expr) -> list[Part]:
        if not self.changes(node):
            return [Part(None, (), _tolerant(node))]
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        return self.feature(node)

    def changes(self, node: exp.Expr) -> bool:
        return any(c.table == self.alias and c.name in self.values for c in node.find_all(exp.Column))

    def of_one_row(self, node: exp.Expr) -> bool:
        return all(c.table == self.alias for c in node.find_all(exp.Column))

    def feature(self, node: exp.Expr) -> list[Part]:
        """The node itself as a function of one row, where it is one."""
        if not self.of_one_row(node):
            others = sorted({c.sql("spark") for c in node.find_all(exp.Column) if c.table != self.alias})
            raise NotAffine(
                node,
                f"{node.sql('spark')} mixes a changing value with {', '.join(others)} and is not affine in the value",
            )
        if node.find(exp.AggFunc, exp.Window, exp.Query):
            raise NotAffine(node, f"{node.sql('spark')} is not a function of one row")
        return [Part(None, ((_bare(node), _ONE),), ZERO)]

    # rules, one per node type

    def paren(self, node: exp.Paren) -> list[Part]:
        return self.parts(node.this)

    def neg(self, node: exp.Neg) -> list[Part]:
        return [_scaled(p, _negated) for p in self.parts(node.this)]

    def sum(self, node: exp.Add | exp.Sub) -> list[Part]:
        """Long sums are deep trees: their summands are taken in one go."""
        summands: list[list[Part]] = []
        rest: exp.Expr = node
        while isinstance(rest, exp.Add | exp.Sub):
            parts = self.parts(rest.expression)
            summands.append(parts if isinstance(rest, exp.Add) else [_scaled(p, _negated) for p in parts])
            rest = rest.this
        summands.append(self.parts(rest))
        cases = math.prod(len(s) for s in summands)
        if cases > 4 * MAX_PARTS:
            raise NotAffine(node, f"it has {cases} cases; at most {MAX_PARTS} can be kept")
        return [_summed(chosen) for chosen in product(*reversed(summands))]

    def mul(self, node: exp.Mul) -> list[Part]:
        left, right = node.this, node.expression
        if not self.changes(left):
            return [_scaled(p, lambda c: _times(_tolerant(left), c)) for p in self.parts(right)]
        if not self.changes(right):
            return [_scaled(p, lambda c: _times(c, _tolerant(right))) for p in self.parts(left)]
        if self.of_one_row(node):
            return self.feature(node)
        return [
            Part(_and(a.condition, b.condition), _product(a, b), _times(a.constant, b.constant))
            for a, b in product(self.parts(left), self.parts(right))
        ]

    def div(self, node: exp.Div) -> list[Part]:
        left, right = node.this, node.expression
        if not self.changes(right):
            return [_scaled(p, lambda c: _ratio(c, _tolerant(right))) for p in self.parts(left)]
        if self.of_one_row(node):
            return self.feature(node)
        if not self.of_one_row(right):
            raise NotAffine(right, f"{right.sql('spark')} divides, and mixes a changing value with static columns")
        divisor = _bare(right)
        parts = []
        for p in self.parts(left):
            terms = [(_ratio(f, divisor), c) for f, c in p.terms]
            if p.constant is not ZERO or not terms:
                terms.append((_ratio(_ONE, divisor), p.constant))
            parts.append(Part(p.condition, _merged(terms), ZERO))
        return parts

    def case(self, node: exp.Case) -> list[Part]:
        branches: list[tuple[exp.Expr, exp.Expr | None]] = []
        for branch in node.args["ifs"]:
            test = exp.EQ(this=node.this.copy(), expression=branch.this.copy()) if node.this else branch.this
            branches.append((test, branch.args["true"]))
        return self.cases_or_feature(node, branches, node.args.get("default"))

    def if_(self, node: exp.If) -> list[Part]:
        return self.cases_or_feature(node, [(node.this, node.args["true"])], node.args.get("false"))

    def cases_or_feature(self, node: exp.Expr, branches: list, default: exp.Expr | None) -> list[Part]:
        try:
            return self.cases(branches, default)
        except NotAffine:
            if self.of_one_row(node):
                return self.feature(node)
            raise

    def cases(self, branches: list, default: exp.Expr | None) -> list[Part]:
        """One part per branch; a row without a branch has no part, as its value is NULL."""
        parts: list[Part] = []
        before: exp.Expr | None = None
        for test, value in branches:
            if self.changes(test):
                raise NotAffine(test, f"{test.sql('spark')} is a condition on a changing value")
            here = _and(before, test)
            parts += [Part(_and(here, p.condition), p.terms, p.constant) for p in self.parts(value)]
            before = _and(before, _not_true(test))
        if default is not None and not isinstance(default, exp.Null):
            parts += [Part(_and(before, p.condition), p.terms, p.constant) for p in self.parts(default)]
        return parts

    def cast(self, node: exp.Cast) -> list[Part]:
        if self.of_one_row(node):
            return self.feature(node)
        if node.to.is_type(exp.DataType.Type.DOUBLE):
            return self.parts(node.this)
        raise NotAffine(node, f"a cast to {node.to.sql('spark')} rounds: {node.sql('spark')} is not affine")


class _Extremum(_Form):
    def parts(self, node: exp.Expr) -> list[Part]:
        whole = not isinstance(node, exp.Paren | exp.Case | exp.If)
        return self.feature(node) if whole and self.changes(node) and self.of_one_row(node) else super().parts(node)


_RULES: dict[type, Callable] = {
    exp.Paren: _Form.paren,
    exp.Neg: _Form.neg,
    exp.Add: _Form.sum,
    exp.Sub: _Form.sum,
    exp.Mul: _Form.mul,
    exp.Div: _Form.div,
    exp.Case: _Form.case,
    exp.If: _Form.if_,
    exp.Cast: _Form.cast,
    exp.TryCast: _Form.cast,
}

# ---------------------------------------------------------------- arithmetic of parts

Terms: TypeAlias = tuple[tuple[exp.Expr, exp.Expr], ...]

_ONE, ZERO = exp.Literal.number(1), exp.Literal.number(0)  # ours: one that users write may be a parameter


def _summed(parts: Sequence[Part]) -> Part:
    condition = None
    for part in parts:
        condition = _and(condition, part.condition)
    constants = [p.constant for p in parts if p.constant is not ZERO]
    return Part(condition, _merged([t for p in parts for t in p.terms]), _total(constants))


def _scaled(part: Part, scale: Callable[[exp.Expr], exp.Expr]) -> Part:
    constant = part.constant if part.constant is ZERO else scale(part.constant)
    return Part(part.condition, tuple((f, scale(c)) for f, c in part.terms), constant)


def _product(a: Part, b: Part) -> Terms:
    terms = [(_times(f, g), _times(c, d)) for f, c in a.terms for g, d in b.terms]
    terms += [(f, _times(c, b.constant)) for f, c in a.terms]
    terms += [(g, _times(a.constant, d)) for g, d in b.terms]
    # a product is NULL where one of its factors is, so terms of weight zero add nothing beside it
    return _merged(t for t in terms if t[1] is not ZERO or not (a.terms and b.terms))


def _merged(terms: Iterable[tuple[exp.Expr, exp.Expr]]) -> Terms:
    """Each feature once, its coefficients added."""
    found: dict[exp.Expr, list[exp.Expr]] = {}
    for feature, coefficient in terms:
        found.setdefault(feature, []).append(coefficient)
    return tuple((feature, _total(coefficients)) for feature, coefficients in found.items())


def _total(values: Sequence[exp.Expr]) -> exp.Expr:
    """Their sum, as a tree that stays shallow."""
    if len(values) <= 1:
        return values[0] if values else ZERO
    middle = len(values) // 2
    return exp.Add(this=_wrap(_total(values[:middle])), expression=_wrap(_total(values[middle:])))


def _negated(value: exp.Expr) -> exp.Expr:
    return exp.Neg(this=_wrap(value))


def _times(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    if a is _ONE:
        return b
    if b is _ONE:
        return a
    if a is ZERO or b is ZERO:
        return ZERO
    return exp.Mul(this=_wrap(a), expression=_wrap(b))


def _wrap(node: exp.Expr) -> exp.Expr:
    node = node.copy()
    return exp.Paren(this=node) if isinstance(node, exp.Binary | exp.Neg) else node


def _and(a: exp.Expr | None, b: exp.Expr | None) -> exp.Expr | None:
    if a is None or b is None:
        return a if b is None else b
    return exp.and_(a.copy(), b.copy())


def _not_true(test: exp.Expr) -> exp.Expr:
    """CASE goes on where the test is false or NULL."""
    return exp.not_(exp.Coalesce(this=exp.Paren(this=test.copy()), expressions=[exp.false()]))


def _bare(node: exp.Expr) -> exp.Expr:
    """The node over bare columns of the stream."""

    def bare(n: exp.Expr) -> exp.Expr:
        return exp.column(exp.to_identifier(n.name, quoted=True)) if isinstance(n, exp.Column) else n

    return _tolerant(node).transform(bare)


def _tolerant(node: exp.Expr) -> exp.Expr:
    """The node with NULL where a division by zero or a cast would fail: one row must not stop a stream."""

    def tolerant(n: exp.Expr) -> exp.Expr:
        if isinstance(n, exp.Cast):
            return exp.TryCast(this=_tolerant(n.this), to=n.to.copy(), format=n.args.get("format"), safe=True)
        if isinstance(n, exp.Div):
            return _quotient(_tolerant(n.this), _tolerant(n.expression))
        if isinstance(n, exp.Mod | exp.IntDiv):
            return type(n)(
                this=_tolerant(n.this), expression=exp.Nullif(this=_tolerant(n.expression), expression=ZERO.copy())
            )
        return n

    return node.copy().transform(tolerant)


def _quotient(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.SafeDivide(this=a.copy(), expression=b.copy())


def _ratio(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """A quotient that SQL does not have, in doubles: among decimals 1 / 3.0 is 0.333333."""
    return _quotient(exp.cast(a.copy(), "DOUBLE"), b)
