"""The options of CREATE STREAM: ours are taken out, the others are for the source that USING names."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from deadband.compiler import ast
from deadband.compiler.errors import DeadbandError, did_you_mean, nearest

__all__ = ["change_rate", "message_cost", "source_options"]

MESSAGE_COST, CHANGE_RATE = "message_cost", "change_rate"
_OURS = (MESSAGE_COST, CHANGE_RATE)


def source_options(statement: ast.CreateStream) -> tuple[tuple[str, str], ...]:
    """What Spark's reader gets."""
    others = [o for o in statement.options if o.name.key not in _OURS]
    for option in others:
        meant = nearest(option.name.text, _OURS, cutoff=0.6 if statement.using is None else 0.85)
        if meant:  # Spark would pass over it in silence
            hint = f"did you mean {meant[0]}?"
            raise DeadbandError(f"unknown option {option.name.text}", option.name.span, hint=hint)
        if statement.using is None:
            raise DeadbandError(
                f"option {option.name.text} needs a source",
                option.name.span,
                detail=f"without USING a stream has the options {' and '.join(_OURS)}",
                hint="add for example USING parquet",
            )
    return tuple((o.name.text, o.value) for o in others)


def message_cost(options: tuple[ast.Option, ...], columns: Mapping[str, str]) -> str | None:
    """The column that says what a message from a key costs."""
    option = next((o for o in options if o.name.key == MESSAGE_COST), None)
    return None if option is None else _numeric(option, columns)


def change_rate(options: tuple[ast.Option, ...], columns: Mapping[str, str]) -> float | str | None:
    """The most that a value changes a second: a number, or the column that says it."""
    option = next((o for o in options if o.name.key == CHANGE_RATE), None)
    if option is None:
        return None
    try:
        rate = float(option.value)
    except ValueError:
        return _numeric(option, columns)
    if rate >= 0 and math.isfinite(rate):
        return rate
    what = "cannot be negative" if rate < 0 else "must be finite"
    hint = "write the most that a value changes a second, or a column that says it"
    raise DeadbandError(f"{CHANGE_RATE} {what}: {option.value}", option.value_span, hint=hint)


def _numeric(option: ast.Option, columns: Mapping[str, str]) -> str:
    """The column that an option names, in lower case."""
    found = next((c for c in columns if c.lower() == option.value.lower()), None)
    if found is None:
        raise DeadbandError(
            f"unknown column {option.value}",
            option.value_span,
            detail=f"the stream has {', '.join(columns)}",
            hint=did_you_mean(option.value, columns) or f"{option.name.text} names a numeric column of the stream",
        )
    if exp.DataType.build(columns[found], dialect="spark").this not in exp.DataType.NUMERIC_TYPES:
        raise DeadbandError(
            f"{option.name.key} must be a number, and {found} is {columns[found]}",
            option.value_span,
            hint="name a numeric column of the stream",
        )
    return found.lower()
