"""LinearAggregate: SUM, AVG and COUNT affine in one stream's values, everything else static."""

from __future__ import annotations

from sqlglot import exp

from deadband.compiler.bind.block import Block, has_aggregate
from deadband.compiler.bind.linear_form import NotAffine, counted, linear_form
from deadband.compiler.logical import Answer, LinearAggregate, Output, Part

__all__ = ["AGGREGATES", "affine_of", "linear_aggregate", "only_stream", "static_side"]

AGGREGATES = {exp.Sum: "SUM", exp.Avg: "AVG", exp.Count: "COUNT"}


def linear_aggregate(block: Block) -> LinearAggregate:
    """The block as a LinearAggregate, or NotAffine at the part that is in the way."""
    alias = only_stream(block)
    stream = block.streams[alias]
    if not stream.key:
        raise NotAffine(block.select, f"{stream.name} has no KEY, so its rows are events, not items with a current value")
    values = frozenset({*stream.values, stream.timestamp})
    static_side(block, alias, values)
    outputs: list[Output] = []
    answers: list[Answer] = []
    for name, node in zip(block.names, block.outputs, strict=True):
        if has_aggregate(node):
            outputs.append(Output(name, len(answers), None))
            answers.append(_answer(name, node, alias, values))
        else:
            _check_static(node, alias, values)
            outputs.append(Output(name, None, node))
    if not answers:
        raise NotAffine(block.select, "it has no aggregate")
    return LinearAggregate(stream, alias, block.select, block.groups, tuple(outputs), tuple(answers))


def only_stream(block: Block) -> str:
    """The alias of the one stream that is read, once."""
    if len(block.streams) != 1:
        names = ", ".join(sorted(s.name for s in block.streams.values()))
        raise NotAffine(block.select, f"it joins several streams ({names})" if names else "it reads no stream")
    (alias,) = block.streams
    if alias in block.nullable:
        raise NotAffine(block.select, "a LEFT JOIN to a stream")
    return alias


def static_side(block: Block, alias: str, values: frozenset[str]) -> None:
    """Conditions and groups must not depend on what changes."""
    for condition in block.conditions:
        _check_static(condition, alias, values, "a condition on")
    for join in block.select.args.get("joins") or []:
        if join.args.get("on") is not None:
            _check_static(join.args["on"], alias, values, "a condition on")
    for group in block.groups:
        _check_static(group, alias, values, "a GROUP BY on")


def affine_of(node: exp.Expression) -> tuple[exp.Expression, float, exp.Expression | None, float | None]:
    """An output as (aggregate, offset, factor, default): factor · aggregate + offset, default where it is NULL."""
    if isinstance(node, exp.Paren):
        return affine_of(node.this)
    if isinstance(node, exp.Coalesce) and len(node.expressions) == 1 and _number(node.expressions[0]) is not None:
        aggregate, offset, factor, default = affine_of(node.this)
        if default is None:
            return aggregate, offset, factor, _number(node.expressions[0])
    if isinstance(node, exp.Add | exp.Sub) and _number(node.expression) is not None:
        aggregate, offset, factor, default = affine_of(node.this)
        number = _number(node.expression)
        assert number is not None
        if default is None:
            return aggregate, offset + (number if isinstance(node, exp.Add) else -number), factor, None
    if isinstance(node, exp.Mul | exp.Div) and _number(node.expression) is not None:
        aggregate, offset, factor, default = affine_of(node.this)
        if default is None and factor is None and offset == 0:
            return aggregate, 0.0, type(node)(this=exp.Literal.number(1), expression=node.expression.copy()), None
    if isinstance(node, exp.Mul) and _number(node.this) is not None:
        return affine_of(exp.Mul(this=node.expression.copy(), expression=node.this.copy()))
    return node, 0.0, None, None


def _answer(name: str, node: exp.Expression, alias: str, values: frozenset[str]) -> Answer:
    aggregate, offset, factor, default = affine_of(node)
    condition: exp.Expression | None = None
    if isinstance(aggregate, exp.Filter):
        condition = aggregate.expression.this
        _check_static(condition, alias, values, "a condition on")
        aggregate = aggregate.this
    kind = AGGREGATES.get(type(aggregate))
    if kind is None:
        raise NotAffine(node, f"{node.sql('spark')} is not SUM, AVG or COUNT of an affine expression")
    if aggregate.find(exp.Distinct):
        raise NotAffine(aggregate, f"{aggregate.sql('spark')} is not affine: DISTINCT")
    if factor is not None and kind == "COUNT":
        raise NotAffine(node, f"{node.sql('spark')} scales a COUNT")
    inner = aggregate.this
    if isinstance(inner, exp.Star):
        parts: tuple[Part, ...] = (Part(None, (), exp.Literal.number(1)),)
    else:
        if isinstance(aggregate, exp.Count) and aggregate.expressions:
            raise NotAffine(aggregate, "COUNT of several columns")
        if factor is not None:
            inner = type(factor)(this=exp.Paren(this=inner.copy()), expression=factor.expression)
        parts = linear_form(inner, alias, values)
        if kind == "COUNT":
            parts = tuple(counted(p) for p in parts)
    if condition is not None:
        parts = tuple(
            Part(condition if p.condition is None else exp.and_(condition, p.condition), p.terms, p.constant) for p in parts
        )
    return Answer(name, kind, parts, offset, default, node.sql("spark"))


def _check_static(node: exp.Expression, alias: str, values: frozenset[str], what: str = "an output that reads") -> None:
    for column in node.find_all(exp.Column):
        if column.table == alias and column.name in values:
            raise NotAffine(column, f"{what} the changing value {column.sql('spark')}")
    if has_aggregate(node):
        raise NotAffine(node, "an aggregate inside a condition")


def _number(node: exp.Expression) -> float | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this)
    return None


