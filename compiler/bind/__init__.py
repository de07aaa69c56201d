"""Binding: what was written, against what there is."""

from __future__ import annotations

from deadband.compiler import ast
from deadband.compiler.bind.promise import not_supported_yet, promise_of
from deadband.compiler.bind.stream import stream_of
from deadband.compiler.bind.template import Templates
from deadband.compiler.catalog import Catalog
from deadband.compiler.errors import DeadbandError
from deadband.compiler.logical import Query

__all__ = ["Templates", "bind", "not_supported_yet", "stream_of"]


def bind(name: str, query: ast.Query, catalog: Catalog, templates: Templates) -> Query:
    """A continuous query against the catalog."""
    template, literals = templates.bind(query.body, catalog)
    if not template.body.streams:
        raise DeadbandError(
            "a continuous query must read a stream",
            query.body.span,
            hint="declare one with CREATE STREAM; plain SELECT runs on Spark as it is",
        )
    into = query.clause(ast.Into)
    assert into is None or isinstance(into, ast.Into)
    promise = promise_of(query, template)
    return Query(name, template.body, template.shape, promise, into, template, literals)
