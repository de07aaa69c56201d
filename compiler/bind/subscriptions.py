"""Which relation of a block holds the subscriptions, and the ranges it puts on the data."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deadband.compiler.bind.block import Block, aliases_of
from deadband.compiler.bind.ranges import Comparison, comparisons, range_on
from deadband.compiler.logical import Range

__all__ = ["Split", "split_by"]


@dataclass(frozen=True)
class Split:
    """A block seen from its data: ranges per data relation, bands between two of them, equalities, the rest."""

    subscriptions: str | None
    ranges: dict[str, tuple[Range, ...]]
    bands: tuple[Range, ...]
    equalities: tuple[str, ...]
    where: tuple[str, ...]  # conditions on the subscriptions alone
    open: tuple[exp.Expr, ...]  # conditions that are none of these


def split_by(block: Block, data: tuple[str, ...], subscriptions: str | None) -> Split:
    """The conditions of a block, sorted by what they do to the data relations."""
    ranges: dict[str, list[Range]] = {a: [] for a in data}
    bands: list[Range] = []
    equalities: list[str] = []
    where: list[str] = []
    rest: list[exp.Expr] = []
    for condition in block.conditions:
        found = comparisons(condition)
        if found is None:
            rest.append(condition)
            continue
        for comparison in found:
            _sort(comparison, data, subscriptions, ranges, bands, equalities, where, rest, condition)
    by_alias = {a: tuple(r) for a, r in ranges.items()}
    return Split(subscriptions, by_alias, tuple(bands), tuple(equalities), tuple(where), tuple(rest))


def _sort(
    comparison: Comparison,
    data: tuple[str, ...],
    subscriptions: str | None,
    ranges: dict[str, list[Range]],
    bands: list[Range],
    equalities: list[str],
    where: list[str],
    rest: list[exp.Expr],
    condition: exp.Expr,
) -> None:
    touched = comparison.aliases()
    mine = touched & set(data)
    if comparison.columns() != set(condition.find_all(exp.Column)):  # a term that cancels out still must not be NULL
        rest.append(condition)
        return
    if not mine:
        if touched - {subscriptions}:
            rest.append(condition)
        else:
            where.append(condition.sql("spark"))
        return
    if touched - set(data) - {subscriptions}:
        rest.append(condition)
        return
    ranged = range_on(comparison, data)
    if ranged is None:
        rest.append(condition)
    elif len(mine) == 1 and len(ranged[0]) == 1:
        ranges[next(iter(mine))].append(ranged[1])
    elif len(mine) == 2 and len(ranged[0]) == 2:
        if comparison.op == "=" and not (touched - set(data)) and comparison.constant == 0:
            equalities.append(_equality(comparison, data, condition))
        else:
            bands.append(ranged[1])
    else:
        rest.append(condition)


def _equality(comparison: Comparison, data: tuple[str, ...], condition: exp.Expr) -> str:
    """The left relation's column first, however it was written."""
    (one, weight), (two, other) = comparison.atoms
    if weight != -other:
        return condition.sql("spark")
    left, right = sorted((one, two), key=lambda c: data.index(next(iter(aliases_of(c)))))
    return f"{left.sql('spark')} = {right.sql('spark')}"
