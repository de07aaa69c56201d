"""LinearAggregate: SUM, AVG and COUNT affine in one stream's values, everything else static."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp

from deadband.compiler.bind.block import Block, aliases_of, has_aggregate
from deadband.compiler.bind.linear_form import NotAffine, counted, extremum_form, linear_form, times
from deadband.compiler.bind.ranges import number_of
from deadband.compiler.bind.unstable import unstable_part
from deadband.compiler.logical import Answer, ItemAggregate, LinearAggregate, Output, Part

__all__ = ["AGGREGATES", "Affine", "affine_of", "linear_aggregate", "over_items"]

MAX_FEATURES = 64  # which of them are NULL is told by the bits of a word
AGGREGATES: dict[type[exp.Expr], str] = {exp.Sum: "SUM", exp.Avg: "AVG", exp.Count: "COUNT"}

_MINUS_ONE = exp.Neg(this=exp.Literal.number(1))
_FLIPPED = {"MIN": "MAX", "MAX": "MIN"}
Aggregates = Mapping[type[exp.Expr], str]
Items = TypeVar("Items", bound=ItemAggregate)


def linear_aggregate(block: Block) -> LinearAggregate:
    """The block as a LinearAggregate, or NotAffine at the part that is in the way."""
    return over_items(block, LinearAggregate, AGGREGATES)


def over_items(block: Block, kind: type[Items], aggregates: Aggregates) -> Items:
    """The block as a shape whose outputs are these aggregates of one keyed stream's items."""
    alias = _only_stream(block)
    stream = block.streams[alias]
    if not any(has_aggregate(o) for o in block.outputs):
        raise NotAffine(block.select, "it has no aggregate")
    if not stream.key:
        reason = f"{stream.name} has no KEY, so its rows are events, not items with a current value"
        raise NotAffine(_relation(block, alias), reason)
    values = frozenset({*stream.values, stream.timestamp})
    _static_side(block, alias, values)
    unstable = unstable_part(block.select)
    if unstable is not None:
        raise NotAffine(unstable, f"{unstable.sql('spark')} changes by itself, so no weight can be kept")
    outputs: list[Output] = []
    answers: list[Answer] = []
    for name, node in zip(block.names, block.outputs, strict=True):
        if has_aggregate(node):
            outputs.append(Output(name, len(answers), None))
            answers.append(_answer(name, node, alias, values, aggregates))
        else:
            _check_static(node, alias, values)
            _check_grouped(node, block.groups)
            outputs.append(Output(name, None, node))
    shape = kind(stream, alias, block.select, block.groups, tuple(outputs), tuple(answers))
    if len(shape.features) > MAX_FEATURES:
        reason = f"it keeps {len(shape.features)} different values per key; at most {MAX_FEATURES} fit"
        raise NotAffine(block.select, reason)
    return shape


def _only_stream(block: Block) -> str:
    """The alias of the one stream that is read, once."""
    if len(block.streams) > 1:
        raise _several_streams(block)
    if not block.streams:
        raise NotAffine(block.select, "it reads no stream")
    (alias,) = block.streams
    return alias


def _several_streams(block: Block) -> NotAffine:
    """Names the smallest expression that mixes values of two streams, where there is one."""
    for aggregate in (a for o in block.outputs for a in o.find_all(exp.AggFunc)):
        mixed = [n for n in aggregate.find_all(exp.Binary, exp.Func) if len(aliases_of(n) & {*block.streams}) > 1]
        if mixed:
            node = min(mixed, key=lambda n: sum(1 for _ in n.walk()))
            return NotAffine(node, f"{node.sql('spark')} mixes values of two streams")
    second = list(block.streams)[-1]
    names = " and ".join(sorted({s.name for s in block.streams.values()}))
    twice = f"it reads {names} twice" if " and " not in names else f"it joins several streams: {names}"
    return NotAffine(_relation(block, second), twice)


def _relation(block: Block, alias: str) -> exp.Expr:
    return next(t for t in block.select.find_all(exp.Table) if t.alias_or_name == alias)


def _static_side(block: Block, alias: str, values: frozenset[str]) -> None:
    """Conditions and groups must not depend on what changes."""
    where = block.select.args.get("where")
    if where is not None:  # as it was written: what simplifies away is still read
        _check_static(where.this, alias, values, "a condition on")
    for join in block.select.args.get("joins") or []:
        if join.args.get("on") is not None:
            _check_static(join.args["on"], alias, values, "a condition on")
    for group in block.groups:
        _check_static(group, alias, values, "a GROUP BY on")


@dataclass(frozen=True)
class Affine:
    """scaled(aggregate) + offset, or default where the aggregate is NULL."""

    aggregate: exp.Expr
    scales: tuple[tuple[type[exp.Binary], exp.Expr], ...] = ()  # Mul or Div, by a number
    offset: float = 0.0
    default: float | None = None

    def plus(self, number: float) -> Affine:
        return replace(
            self, offset=self.offset + number, default=None if self.default is None else self.default + number
        )

    def times(self, op: type[exp.Binary], number: exp.Expr) -> Affine:
        value = _number(number)
        assert value is not None
        factor = value if op is exp.Mul else 1 / value
        default = None if self.default is None else self.default * factor
        return replace(self, scales=(*self.scales, (op, number)), offset=self.offset * factor, default=default)

    @property
    def negative(self) -> bool:
        """Whether it falls where the aggregate rises."""
        return sum(1 for _, number in self.scales if (_number(number) or 0.0) < 0) % 2 == 1

    def scaled(self, inner: exp.Expr) -> exp.Expr:
        """What the aggregate is over, scaled."""
        for op, number in self.scales:
            inner = op(this=exp.Paren(this=inner.copy()), expression=number.copy())
        return inner


def affine_of(node: exp.Expr) -> Affine:
    """An output as an affine function of one aggregate, as far as numbers go."""
    if isinstance(node, exp.Paren):
        return affine_of(node.this)
    if isinstance(node, exp.Neg):
        return affine_of(node.this).times(exp.Mul, _MINUS_ONE)
    if isinstance(node, exp.Coalesce) and len(node.expressions) == 1 and _number(node.expressions[0]) is not None:
        inner = affine_of(node.this)
        return inner if inner.default is not None else replace(inner, default=_number(node.expressions[0]))
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        left, right = _number(node.this), _number(node.expression)
        if right is not None and not (isinstance(node, exp.Div) and right == 0):
            inner = affine_of(node.this)
            if isinstance(node, exp.Add | exp.Sub):
                return inner.plus(right if isinstance(node, exp.Add) else -right)
            return inner.times(type(node), node.expression)
        if left is not None and not isinstance(node, exp.Div):
            inner = affine_of(node.expression)
            if isinstance(node, exp.Mul):
                return inner.times(exp.Mul, node.this)
            return (inner if isinstance(node, exp.Add) else inner.times(exp.Mul, _MINUS_ONE)).plus(left)
    return Affine(node)


def _answer(name: str, node: exp.Expr, alias: str, values: frozenset[str], aggregates: Aggregates) -> Answer:
    affine = affine_of(node)
    aggregate, condition = affine.aggregate, None
    if isinstance(aggregate, exp.Filter):
        condition = aggregate.expression.this
        _check_static(condition, alias, values, "a condition on")
        aggregate = aggregate.this
    kind = aggregates.get(type(aggregate))
    if kind is None:
        raise _not_an_aggregate(aggregate, aggregates)
    if kind in _FLIPPED:
        parts = _competing(aggregate, affine, alias, values)
        kind = _FLIPPED[kind] if affine.negative else kind
    else:
        parts = _added(node, aggregate, affine, kind, alias, values)
    if condition is not None:
        parts = tuple(
            Part(condition if p.condition is None else exp.and_(condition, p.condition), p.terms, p.constant)
            for p in parts
        )
    return Answer(name, kind, parts, affine.offset, affine.default, node.sql("spark"))


def _competing(aggregate: exp.Expr, affine: Affine, alias: str, values: frozenset[str]) -> tuple[Part, ...]:
    """The parts of a MIN or MAX, scaled as the aggregate is: -MIN(x) is MAX(-x), and an item counts however often."""
    argument = aggregate.this
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    if argument is None or aggregate.expressions or isinstance(argument, exp.Distinct | exp.Star):
        raise NotAffine(aggregate, f"{aggregate.sql('spark')} is not of one expression")
    parts = extremum_form(argument, alias, values)
    for op, number in affine.scales:
        parts = tuple(times(p, op, number) for p in parts)
    return parts


def _added(
    node: exp.Expr, aggregate: exp.Expr, affine: Affine, kind: str, alias: str, values: frozenset[str]
) -> tuple[Part, ...]:
    """The parts of a SUM, AVG or COUNT."""
    if aggregate.find(exp.Distinct):
        raise NotAffine(aggregate, f"{aggregate.sql('spark')} drops values that are alike")
    if affine.scales and kind == "COUNT":
        raise NotAffine(node, f"{node.sql('spark')} scales a COUNT")
    if isinstance(aggregate.this, exp.Star):
        return (Part(None, (), exp.Literal.number(1)),)
    if aggregate.this is None or aggregate.expressions:
        raise NotAffine(aggregate, f"{aggregate.sql('spark')} is not of one expression")
    parts = linear_form(affine.scaled(aggregate.this), alias, values)
    return tuple(counted(p) for p in parts) if kind == "COUNT" else parts


def _not_an_aggregate(node: exp.Expr, aggregates: Aggregates) -> NotAffine:
    text, count = node.sql("spark"), len(list(node.find_all(exp.AggFunc)))
    if count > 1:
        return NotAffine(node, f"{text} puts several aggregates together")
    if not isinstance(node, exp.AggFunc):
        return NotAffine(node, f"{text} is not affine in its aggregate")
    *names, last = aggregates.values()
    return NotAffine(node, f"{text} is not {', '.join(names)} or {last}")


def _check_grouped(node: exp.Expr, groups: tuple[exp.Expr, ...]) -> None:
    """What an output reads must be one of the groups."""
    if any(node.unnest() == g.unnest() for g in groups):
        return
    if isinstance(node, exp.Column):
        raise NotAffine(node, f"{node.sql('spark')} is neither grouped nor inside an aggregate")
    for child in node.iter_expressions():
        _check_grouped(child, groups)


def _check_static(node: exp.Expr, alias: str, values: frozenset[str], what: str = "an output that reads") -> None:
    for column in node.find_all(exp.Column):
        if column.table == alias and column.name in values:
            raise NotAffine(column, f"{what} the changing value {column.sql('spark')}")
    if has_aggregate(node):
        raise NotAffine(node, "an aggregate inside a condition")


def _number(node: exp.Expr) -> float | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Paren):
        return _number(node.this)
    return number_of(node)
