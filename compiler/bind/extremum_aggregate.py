"""ExtremumAggregate: MIN and MAX over one stream's items, SUM, AVG and COUNT beside them, everything else static."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.schema import Schema

from deadband.compiler.bind.block import Block
from deadband.compiler.bind.linear_aggregate import AGGREGATES, Aggregates, over_items
from deadband.compiler.bind.linear_form import NotAffine
from deadband.compiler.logical import Body, ExtremumAggregate

__all__ = ["extremum_aggregate", "not_a_number"]

_ALL: Aggregates = {**AGGREGATES, exp.Min: "MIN", exp.Max: "MAX"}


def extremum_aggregate(block: Block) -> ExtremumAggregate:
    """The block as an ExtremumAggregate, or NotAffine at the part that is in the way."""
    return over_items(block, ExtremumAggregate, _ALL)


def not_a_number(body: Body, schema: Schema) -> NotAffine | None:
    """The first MIN or MAX that is known to be of something else than numbers: it runs, and has no distance."""
    try:
        typed = annotate_types(body.query.copy(), schema=schema, dialect="spark")
    except (SqlglotError, RecursionError):  # Spark's schema decides
        return None
    for node in (n for s in typed.selects for n in s.find_all(exp.Min, exp.Max)):
        kind = node.type
        if kind is not None and kind.this not in _MAY_BE_NUMBERS:
            return NotAffine(node, f"{node.sql('spark')} is a {kind.sql('spark')}, and only numbers have a distance")
    return None


_MAY_BE_NUMBERS = {
    *exp.DataType.NUMERIC_TYPES,
    exp.DataType.Type.NULL,
    exp.DataType.Type.UNKNOWN,
    exp.DataType.Type.USERDEFINED,
}
