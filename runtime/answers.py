"""Reports as tables: event time, diff, the query's columns in its order and types, and the band they promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from deadband.compiler.ast import Bound
from deadband.compiler.errors import DeadbandError
from deadband.compiler.logical import Query
from deadband.compiler.physical import AdaptiveFilter, EmitOnDrift
from deadband.runtime.clock import Clock
from deadband.runtime.operators.adaptive_filter import Changes as FilterChanges
from deadband.runtime.operators.emit_on_drift import Changes
from deadband.runtime.operators.filter_wiring import Book
from deadband.runtime.operators.wiring import Groups
from deadband.runtime.sources.frames import pandas_of

__all__ = ["drift_frame", "drift_table", "filter_table"]

WHOLE = 2.0**53  # up to here doubles tell whole numbers apart


def drift_frame(
    plan: EmitOnDrift, query: Query, changes: Changes, groups: Groups, mine: NDArray, clock: Clock, schema: T.StructType
) -> pd.DataFrame:
    """The rows `mine` of an EmitOnDrift run, in pandas."""
    return pandas_of(drift_table(plan, query, changes, groups, mine, clock, schema), clock.timezone)


def drift_table(
    plan: EmitOnDrift, query: Query, changes: Changes, groups: Groups, mine: NDArray, clock: Clock, schema: T.StructType
) -> pa.Table:
    """The same with Spark's types: ts, diff, columns, then low and high of each bounded answer."""
    group, answer = changes.group[mine], changes.answer[mine]
    names, columns = ["ts", "diff"], [clock.column(changes.time[mine]), pa.array(changes.diff[mine], pa.int32())]
    for i, (output, field) in enumerate(zip(plan.shape.outputs, schema.fields, strict=True)):
        names.append(output.name)
        if output.answer is None:
            none = pa.array([], to_arrow_type(field.dataType, timezone="UTC"))
            columns.append(groups.rows[f"o{i}"].take(group) if len(groups) else none)
        else:
            reach = _reach(answer[:, output.answer], query.promise.bounds[output.answer])
            columns.append(_typed(answer[:, output.answer], reach, field.dataType, output.name))
    bounded = [(a, b) for a, b in enumerate(query.promise.bounds) if b is not None]
    for a, bound in bounded:
        value, reach = answer[:, a], _reach(answer[:, a], bound)
        prefix = "" if len(bounded) == 1 else f"{plan.shape.answers[a].name}_"
        names += [f"{prefix}low", f"{prefix}high"]
        columns += [pa.array(end, mask=np.isnan(value)) for end in (value - reach, value + reach)]
    return pa.table(columns, names=names)


def filter_table(
    plan: AdaptiveFilter,
    query: Query,
    changes: FilterChanges,
    book: Book,
    number: int,
    mine: NDArray,
    clock: Clock,
    schema: T.StructType,
) -> pa.Table:
    """The rows `mine` of an AdaptiveFilter run, all of plan `number`, in the same columns; an answer is its middle."""
    row = book.group["row"][changes.group[mine]]
    names, columns = ["ts", "diff"], [clock.column(changes.time[mine]), pa.array(changes.diff[mine], pa.int32())]
    ends = {}
    for i, (output, field) in enumerate(zip(plan.shape.outputs, schema.fields, strict=True)):
        names.append(output.name)
        if output.answer is None:
            none = pa.array([], to_arrow_type(field.dataType, timezone="UTC"))
            groups = book.groups[number]
            columns.append(groups.rows[f"o{i}"].take(row) if len(groups) else none)
            continue
        at = changes.start[mine] + output.answer
        low, high = changes.low[at], changes.high[at]
        ends[output.answer] = low, high
        columns.append(_typed(low + (high - low) / 2, (high - low) / 2, field.dataType, output.name))
    bounded = [a for a, b in enumerate(query.promise.bounds) if b is not None]
    for a in bounded:
        prefix = "" if len(bounded) == 1 else f"{plan.shape.answers[a].name}_"
        names += [f"{prefix}low", f"{prefix}high"]
        columns += [pa.array(end, mask=np.isnan(end)) for end in ends[a]]
    return pa.table(columns, names=names)


def _reach(values: NDArray, bound: Bound | None) -> NDArray:
    """How far from the truth each value may be."""
    if bound is None:
        return np.zeros(len(values))
    return bound.amount * np.abs(values) if bound.percent else np.full(len(values), bound.amount)


def _typed(values: NDArray, reach: NDArray, kind: T.DataType, name: str) -> pa.Array:
    """Numbers as the type Spark gives the column; NaN stands for NULL."""
    null = np.isnan(values)
    if isinstance(kind, T.IntegralType):
        values = np.rint(values)
        large = np.abs(values) > WHOLE
        if (reach[large] < np.spacing(np.abs(values[large]))).any():
            raise DeadbandError(
                f"{name} is beyond 2^53, where not every whole number is a double",
                hint="allow it a larger bound, or cast the summands to DOUBLE",
            )
    try:
        return pa.array(np.where(null, 0.0, values), mask=null).cast(to_arrow_type(kind, timezone="UTC"))
    except pa.ArrowInvalid as error:
        raise DeadbandError(
            f"{name} leaves its type, {kind.simpleString().upper()}",
            detail=str(error),
            hint="cast the summands to DOUBLE",
        ) from error
