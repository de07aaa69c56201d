"""Rewrites of the bound queries, in order; each is one function in one file, and the plan is verified after each."""

from __future__ import annotations

from collections.abc import Callable

from deadband.compiler.logical import Group, Query
from deadband.compiler.passes.fold_queries import fold_queries

__all__ = ["PASSES", "run_passes"]

PASSES: tuple[Callable[[list[Group]], list[Group]], ...] = (fold_queries,)


def run_passes(queries: list[Query]) -> list[Group]:
    """All passes over the queries, each first in a group of its own."""
    groups = [Group((q,)) for q in queries]
    for step in PASSES:
        groups = step(groups)
        _verify(groups, queries)
    return groups


def _verify(groups: list[Group], queries: list[Query]) -> None:
    """Every query is in exactly one group, and a group shares one template."""
    assert sum(len(g.queries) for g in groups) == len(queries)
    assert {id(q) for g in groups for q in g.queries} == {id(q) for q in queries}
    assert all(q.template is g.first.template for g in groups for q in g.queries)
