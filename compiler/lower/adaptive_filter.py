"""AdaptiveFilter for PRECISION on a LinearAggregate or ExtremumAggregate: filters at the sites keep an interval."""

from __future__ import annotations

from typing import Any

from deadband.compiler.catalog import SETTINGS
from deadband.compiler.logical import Group, ItemAggregate
from deadband.compiler.lower.weights import weights_query
from deadband.compiler.physical import AdaptiveFilter, Weights
from deadband.compiler.statistics import FilterStatistics, Known

__all__ = ["adaptive_filter", "other_methods"]

_WHY_NOT = {
    "reference": "each growth is a message, and equal burdens are not the cheapest where items move in bursts",
    "uniform": "busy and quiet items would get the same width",
    "none": "every update that matters would be sent",
}


def adaptive_filter(group: Group, statistics: Known | None) -> AdaptiveFilter | str:
    """The operator, or why it does not apply."""
    query = group.first
    if query.promise.kind != "PRECISION":
        return "there is no PRECISION clause, so no interval is asked for"
    assert isinstance(query.shape, ItemAggregate), "PRECISION was bound to another shape"
    assert statistics is None or isinstance(statistics, FilterStatistics)
    weighed = weights_query(query.shape, query.template, len(group.queries) > 1)
    return AdaptiveFilter(
        group,
        Weights(weighed.query, query.body.tables, statistics),
        tuple(query.shape.features),
        weighed.slots,
        weighed.edges,
        weighed.candidates,
        statistics,
    )


def other_methods(chosen: AdaptiveFilter) -> list[tuple[str, str, dict[str, Any]]]:
    """The methods that do not run: name, reason, estimate."""
    known = chosen.statistics
    figures = {} if known is None else {"uniform": known.uniform, "none": known.baseline}
    asked = f"SET filters = '{chosen.method}' asks for another method"
    ours = SETTINGS["filters"][0]
    return [
        (
            method,
            _WHY_NOT[method] if chosen.method == ours else asked,
            {"messages": round(figures[method]), "control": 0} if method in figures else {},
        )
        for method in SETTINGS["filters"]
        if method != chosen.method
    ]
