"""EmitOnDrift for COHERENCY on a LinearAggregate whose updates all arrive in one place."""

from __future__ import annotations

from deadband.compiler.logical import Group, LinearAggregate
from deadband.compiler.lower.weights import weights_query
from deadband.compiler.physical import EmitOnDrift, Weights
from deadband.compiler.statistics import Known, Statistics

__all__ = ["emit_on_drift"]


def emit_on_drift(group: Group, statistics: Known | None) -> EmitOnDrift | str:
    """The operator, or why it does not apply."""
    query = group.first
    if query.promise.kind == "PRECISION":
        return "serves COHERENCY: it bounds the distance of one value, not the width of an interval"
    if not isinstance(query.shape, LinearAggregate):
        return f"serves LinearAggregate, and this is {query.shape.name}"
    if query.promise.kind != "COHERENCY":
        return "there is no COHERENCY clause, so every change counts"
    assert statistics is None or isinstance(statistics, Statistics)
    weighed = weights_query(query.shape, query.template, len(group.queries) > 1)
    return EmitOnDrift(
        group,
        Weights(weighed.query, query.body.tables, statistics),
        tuple(query.shape.features),
        weighed.slots,
        weighed.edges,
        statistics,
    )
