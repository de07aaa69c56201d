"""The promise of a query in one sentence."""

from __future__ import annotations

from deadband.compiler import ast
from deadband.compiler.logical import ItemAggregate, Query

__all__ = ["guarantee"]


def guarantee(query: Query) -> str:
    promise = query.promise
    when = (
        "at every closed tick"
        if promise.emit_every is None
        else f"whenever it is emitted, every {promise.emit_every:g} s"
    )
    if promise.kind is None:
        return f"exactly the rows of the plain SQL {when}, as changes"
    assert isinstance(query.shape, ItemAggregate)
    one = len(query.shape.answers) == 1
    alone = sum(b is not None for b in promise.bounds) == 1
    says = _interval if promise.kind == "PRECISION" else _distance
    bounds = [
        f"{answer.name} exact" if bound is None else says(answer.name, bound, one, alone)
        for answer, bound in zip(query.shape.answers, promise.bounds, strict=True)
    ]
    if promise.share < 1:
        window = "the run" if promise.window is None else f"every window of {promise.window:g} s"
        ticks = "ticks" if promise.emit_every is None else f"answers emitted, every {promise.emit_every:g} s,"
        when = f"in at least {promise.share * 100:.10g}% of the {ticks} of {window}, for every group"
    between = "; " if promise.kind == "PRECISION" else " and "
    return f"{between.join(bounds)} {when}"


def _distance(name: str, bound: ast.Bound, one: bool, alone: bool) -> str:
    limit = f"{bound} of the value last reported" if bound.percent else str(bound)
    return f"abs({name} - truth) <= {limit}"


def _interval(name: str, bound: ast.Bound, one: bool, alone: bool) -> str:
    """The columns are low and high where one answer has a bound."""
    low, high = ("low", "high") if alone else (f"{name}_low", f"{name}_high")
    limit = f"{bound} of min(abs({low}), abs({high}))" if bound.percent else str(bound)
    return f"truth{'' if one else f' of {name}'} in [{low}, {high}] and {high} - {low} <= {limit}"
