"""The shape of a body: the recognisers in order, the first that fits wins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

from deadband.compiler.bind.block import Block, NotFlat, block_of, has_aggregate
from deadband.compiler.bind.extremum_aggregate import extremum_aggregate
from deadband.compiler.bind.linear_aggregate import affine_of, linear_aggregate
from deadband.compiler.bind.linear_form import NotAffine
from deadband.compiler.bind.subscriptions import split_by
from deadband.compiler.logical import (
    BandJoin,
    Body,
    EquiJoin,
    Exact,
    Range,
    RangeAggregate,
    RangeSelect,
    SelectJoin,
    Shape,
)

__all__ = ["Recognised", "shape_of"]

_RANGE_AGGREGATES = (exp.Min, exp.Max, exp.Sum, exp.Avg, exp.Count)


class Recognised(NamedTuple):
    """The shape, and what kept it from being linear, or of items at all: errors of the clauses point there."""

    shape: Shape
    not_linear: NotAffine | None = None
    not_items: NotAffine | None = None


def shape_of(body: Body) -> Recognised:
    """The first shape that fits."""
    try:
        block = block_of(body)
    except NotFlat as error:
        why = NotAffine(error.node, error.reason)
        return Recognised(Exact(error.reason), why, why)
    try:
        return Recognised(linear_aggregate(block))
    except NotAffine as error:
        not_linear = error
    try:
        return Recognised(extremum_aggregate(block), not_linear)
    except NotAffine as error:
        not_items = error
    for recognise in RECOGNISERS:
        shape = recognise(block)
        if shape is not None:
            return Recognised(shape, not_linear, not_items)
    return Recognised(Exact(not_linear.reason), not_linear, not_items)


def range_aggregate(block: Block) -> RangeAggregate | None:
    """Aggregates of one stream per subscription, groups by subscription only."""
    found = _one_stream_ranges(block)
    if found is None or not block.aggregates:
        return None
    alias, subscriptions, ranges, where = found
    answers = [o for o in block.outputs if has_aggregate(o)]
    if not all(isinstance(affine_of(a).aggregate, _RANGE_AGGREGATES) for a in answers):
        return None
    if any(c.table == alias for g in block.groups for c in g.find_all(exp.Column)):
        return None
    return RangeAggregate(block.streams[alias], _named(block, subscriptions), ranges, _texts(answers), where)


def range_select(block: Block) -> RangeSelect | None:
    """Rows of one stream inside the ranges of a subscription."""
    found = _one_stream_ranges(block)
    if found is None or block.aggregates:
        return None
    alias, subscriptions, ranges, where = found
    return RangeSelect(block.streams[alias], _named(block, subscriptions), ranges, where)


def subscription_join(block: Block) -> BandJoin | SelectJoin | None:
    """Two data relations joined on a band or on equality, with bands and selections per subscription."""
    for left, right, subscriptions in _pairs(block):
        split = split_by(block, (left, right), subscriptions)
        selections = split.ranges[left] + split.ranges[right]
        names = _named(block, left) or left, _named(block, right) or right, _named(block, subscriptions)
        if split.open:
            continue
        if split.bands:
            return BandJoin(*names, split.bands, selections, split.equalities, split.where)
        if split.equalities and selections:
            return SelectJoin(*names, split.equalities, selections, split.where)
    return None


def equi_join(block: Block) -> EquiJoin | None:
    """Two streams joined on equality and nothing else."""
    if block.aggregates or len(block.streams) != 2 or block.tables:
        return None
    left, right = block.streams
    split = split_by(block, (left, right), None)
    if not split.equalities or split.open or split.bands or any(split.ranges.values()):
        return None
    return EquiJoin(block.streams[left].name, block.streams[right].name, split.equalities)


# Joins first: a block with two data relations is never a range over one.
RECOGNISERS = (subscription_join, equi_join, range_aggregate, range_select)


def _one_stream_ranges(block: Block) -> tuple[str, str | None, tuple[Range, ...], tuple[str, ...]] | None:
    """(stream, subscriptions or None, ranges, where) when ranges are all that ties them together."""
    if block.nullable:
        return None
    relations = [*block.streams, *block.tables]
    if len(relations) > 2:
        return None
    for alias in block.streams:
        others = [a for a in relations if a != alias]
        subscriptions = others[0] if others else None
        split = split_by(block, (alias,), subscriptions)
        ranges = split.ranges[alias]
        bounded = [r for r in ranges if r.op != "="]
        if bounded and not split.open and (subscriptions is None or _reads(bounded, subscriptions)):
            return alias, subscriptions, ranges, split.where
    return None


def _pairs(block: Block) -> Iterator[tuple[str, str, str | None]]:
    """(left, right, subscription) choices with both streams as data, or a stream and a table beside a third."""
    if block.aggregates or block.nullable:
        return
    relations = [*block.streams, *block.tables]
    if len(relations) == 2 and len(block.streams) == 2:
        yield relations[0], relations[1], None
    if len(relations) == 3:
        for subscriptions in reversed(relations):
            left, right = (a for a in relations if a != subscriptions)
            if left in block.streams or right in block.streams:
                split = split_by(block, (left, right), subscriptions)
                if _reads([*split.bands, *split.ranges[left], *split.ranges[right]], subscriptions):
                    yield left, right, subscriptions


def _reads(ranges: Iterable[Range], alias: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(alias)}`?\.", r.bound) for r in ranges)


def _named(block: Block, alias: str | None) -> str | None:
    if alias is None:
        return None
    return block.streams[alias].name if alias in block.streams else block.tables[alias]


def _texts(nodes: Iterable[exp.Expr]) -> tuple[str, ...]:
    return tuple(n.sql("spark") for n in nodes)
