"""EmitOnDrift for COHERENCY on a LinearAggregate whose updates all arrive in one place."""

from __future__ import annotations

from deadband.compiler.logical import Group, LinearAggregate
from deadband.compiler.lower.weights import weights_query
from deadband.compiler.physical import EmitOnDrift, Weights
from deadband.compiler.statistics import Statistics

__all__ = ["emit_on_drift"]


def emit_on_drift(group: Group, statistics: Statistics | None) -> EmitOnDrift | str:
    """The operator, or why it does not apply."""
    query = group.first
    if not isinstance(query.shape, LinearAggregate):
        return f"serves LinearAggregate, and this is {query.shape.name}"
    if query.promise.kind != "COHERENCY":
        return "there is no COHERENCY clause, so every change counts"
    fold = len(group.queries) > 1
    weights, slots, edges = weights_query(query.shape, query.template, fold)
    return EmitOnDrift(
        group,
        Weights(weights, query.body.tables, statistics),
        tuple(query.shape.features),
        tuple(slots),
        tuple(edges),
        statistics,
    )
