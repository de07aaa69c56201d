"""Queries that differ only in literals and in the size of their bounds become one group.

Before: one group per query. After: groups whose members share template, kind of promise, fidelity, emission and
method; the members' literals are rows of one parameter table. Cost: one dictionary look-up per query.
"""

from __future__ import annotations

from deadband.compiler.logical import Group, Query

__all__ = ["fold_queries"]


def fold_queries(groups: list[Group]) -> list[Group]:
    folded: dict[tuple, list[Query]] = {}
    for group in groups:
        for query in group.queries:
            folded.setdefault(_alike(query), []).append(query)
    return [Group(tuple(queries)) for queries in folded.values()]


def _alike(query: Query) -> tuple:
    promise = query.promise
    percents = tuple(b is not None and b.percent for b in promise.bounds)
    asked = (promise.kind, promise.share, promise.window, promise.emit_every, promise.method)
    return (id(query.template), percents, *asked)
