"""Reports as frames: event time, diff, the query's columns in its order and types, and the band they promise."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import types as T

from deadband.compiler.logical import Query
from deadband.compiler.physical import EmitOnDrift
from deadband.runtime.clock import Clock
from deadband.runtime.operators.emit_on_drift import Changes
from deadband.runtime.operators.wiring import Groups

__all__ = ["drift_frame"]


def drift_frame(
    plan: EmitOnDrift, query: Query, changes: Changes, groups: Groups, mine: NDArray, clock: Clock, schema: T.StructType
) -> pd.DataFrame:
    """The rows `mine` of an EmitOnDrift run: ts, diff, columns, then low and high of each bounded answer."""
    group, answer = changes.group[mine], changes.answer[mine]
    columns: dict[str, object] = {"ts": clock.values(changes.time[mine]).to_numpy(), "diff": changes.diff[mine].astype(np.int32)}
    for i, (output, field) in enumerate(zip(plan.shape.outputs, schema.fields, strict=True)):
        if output.answer is None:
            columns[output.name] = groups.outputs[f"o{i}"].to_numpy()[group]
        else:
            columns[output.name] = _typed(answer[:, output.answer], field.dataType)
    bounded = [(a, b) for a, b in enumerate(query.promise.bounds) if b is not None]
    for a, bound in bounded:
        value = answer[:, a]
        reach = bound.amount * np.abs(value) if bound.percent else bound.amount
        prefix = "" if len(bounded) == 1 else f"{plan.shape.answers[a].name}_"
        columns[f"{prefix}low"], columns[f"{prefix}high"] = value - reach, value + reach
    return pd.DataFrame(columns)


def _typed(values: NDArray, kind: T.DataType) -> object:
    """Numbers as the type Spark gives the column; NaN stands for NULL."""
    if isinstance(kind, T.IntegralType):
        null = np.isnan(values)
        if null.any():
            whole = pd.array(np.where(null, 0, np.rint(values)).astype(np.int64), dtype="Int64")
            whole[null] = pd.NA
            return whole
        return np.rint(values).astype(np.int64)
    if isinstance(kind, T.DecimalType):
        step = decimal.Decimal(1).scaleb(-kind.scale)
        return np.array(
            [None if np.isnan(v) else decimal.Decimal(repr(float(v))).quantize(step) for v in values], dtype=object
        )
    return values
