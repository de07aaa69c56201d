"""Logical to physical: each operator says whether it can serve a group; the first that can runs, the others are kept
for EXPLAIN with their reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deadband.compiler.logical import Group
from deadband.compiler.lower.adaptive_filter import adaptive_filter, other_methods
from deadband.compiler.lower.emit_on_drift import emit_on_drift
from deadband.compiler.lower.spark_exact import spark_exact
from deadband.compiler.physical import AdaptiveFilter, Operator
from deadband.compiler.statistics import Known

__all__ = ["OPERATORS", "Choice", "Rejected", "lower"]

# Narrower operators first: SparkExact serves anything.
OPERATORS = (("EmitOnDrift", emit_on_drift), ("AdaptiveFilter", adaptive_filter), ("SparkExact", spark_exact))

# Operators of shapes that this release recognises and runs exactly.
_LATER = {
    "RangeAggregate": "Reformulate",
    "RangeSelect": "MergedSubscriptions",
    "BandJoin": "Route",
    "SelectJoin": "Route",
    "EquiJoin": "BoundedJoin",
}


_NARROWER = "a narrower operator serves the query"


@dataclass(frozen=True)
class Rejected:
    op: str
    method: str
    reason: str
    estimate: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """The operator that runs a group and the ones that do not."""

    operator: Operator
    rejected: tuple[Rejected, ...]


def lower(group: Group, statistics: Known | None = None) -> Choice:
    """The operator for a group."""
    rejected: list[Rejected] = []
    shape = group.first.shape.name
    if shape in _LATER:
        rejected.append(Rejected(_LATER[shape], "-", f"{shape} is recognised; its operator is not supported yet"))
    chosen: Operator | None = None
    found: Operator | str
    for op, build in OPERATORS:
        found = build(group, statistics) if chosen is None or build is not spark_exact else _NARROWER
        if isinstance(found, str):
            rejected.append(Rejected(op, "-", found))
        else:
            chosen = found
    assert chosen is not None, "SparkExact serves anything that was bound without a bounded promise"
    if isinstance(chosen, AdaptiveFilter):
        rejected += [Rejected(chosen.op, *other) for other in other_methods(chosen)]
    return Choice(chosen, tuple(rejected))
