"""SparkExact for everything else: the plain body on Spark."""

from __future__ import annotations

from deadband.compiler.logical import Group
from deadband.compiler.lower.as_of import as_of
from deadband.compiler.lower.folded import folded
from deadband.compiler.physical import SparkExact
from deadband.compiler.statistics import Known

__all__ = ["spark_exact"]


def spark_exact(group: Group, statistics: Known | None) -> SparkExact | str:
    """The operator, or why it does not apply."""
    query = group.first
    if query.promise.kind is not None:
        return f"{query.promise.kind} is served by a bounded operator: SparkExact would report every change"
    keyed = {s.name.lower(): bool(s.key) for s in query.body.streams}
    fold = len(group.queries) > 1
    body = folded(query.template) if fold and query.template.select is not None else query.body.query
    return SparkExact(group, as_of(body, keyed, per_query=fold), query.body.streams, query.body.tables)
