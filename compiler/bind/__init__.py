"""Binding: what was written, against what there is."""

from __future__ import annotations

from deadband.compiler import ast
from deadband.compiler.bind.promise import not_supported_yet, promise_of
from deadband.compiler.bind.stream import stream_of
from deadband.compiler.bind.template import Template, Templates
from deadband.compiler.catalog import Catalog
from deadband.compiler.errors import DeadbandError
from deadband.compiler.logical import ItemAggregate, Promise, Query

__all__ = ["Templates", "bind", "not_supported_yet", "stream_of"]


def bind(name: str, query: ast.Query, catalog: Catalog, templates: Templates) -> Query:
    """A continuous query against the catalog."""
    bounding = query.clause(ast.Coherency) or query.clause(ast.Precision)
    template, literals = templates.bind(query.body, catalog, bounded=bounding is not None)
    if not template.body.streams:
        raise DeadbandError(
            "a continuous query must read a stream",
            query.body.span,
            hint="declare one with CREATE STREAM; plain SELECT runs on Spark as it is",
        )
    refused = template.not_linear if isinstance(bounding, ast.Coherency) else template.not_items
    if bounding is not None and refused is not None and template.sql is not query.body:
        template = templates.alone(query.body, catalog)  # it will be refused: in its own words, at its own places
    into = query.clause(ast.Into)
    assert into is None or isinstance(into, ast.Into)
    promise = promise_of(query, template, catalog.settings["filters"])
    _check_names(query, template, promise)
    return Query(name, template.body, template.shape, promise, into, template, literals)


def _check_names(query: ast.Query, template: Template, promise: Promise) -> None:
    """Bounded answers have columns of their own beside the query's: low and high."""
    if not isinstance(template.shape, ItemAggregate):
        return
    bounded = [a.name.lower() for a, b in zip(template.shape.answers, promise.bounds) if b is not None]
    bands = [end if len(bounded) == 1 else f"{name}_{end}" for name in bounded for end in ("low", "high")]
    for name in template.body.columns:
        if name.lower() in bands:
            raise DeadbandError(
                f"a column cannot be called {name} here",
                query.body.span,
                detail=f"answers have the columns {', '.join(bands)} besides",
                hint=f"give it another name: … AS the_{name.lower()}",
            )
