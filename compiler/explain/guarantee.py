"""The promise of a query in one sentence."""

from __future__ import annotations

from deadband.compiler.logical import LinearAggregate, Query

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
    assert isinstance(query.shape, LinearAggregate)
    bounds = []
    for answer, bound in zip(query.shape.answers, promise.bounds, strict=True):
        if bound is None:
            bounds.append(f"{answer.name} exact")
            continue
        limit = f"{bound} of the value last reported" if bound.percent else str(bound)
        bounds.append(f"abs({answer.name} - truth) <= {limit}")
    if promise.share < 1:
        window = "the run" if promise.window is None else f"every window of {promise.window:g} s"
        ticks = "ticks" if promise.emit_every is None else f"answers emitted, every {promise.emit_every:g} s,"
        when = f"in at least {promise.share * 100:.10g}% of the {ticks} of {window}, for every group"
    return f"{' and '.join(bounds)} {when}"
