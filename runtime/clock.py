"""Event time on the driver: ticks as ordinals, windows of seconds, and ordinals back to what users wrote."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from deadband.compiler.errors import DeadbandError
from deadband.runtime.sources.frames import pandas_of

__all__ = ["LONG_DIGITS", "Clock", "coarse", "one_clock"]

LONG_DIGITS = 18  # decimals of so many digits are counted in their last place; longer ones are doubles

_EXACT = decimal.Context(prec=80)


@dataclass(frozen=True)
class Clock:
    """The kind of an event-time column; ordinals are microseconds, days, last places of a decimal, or the numbers."""

    kind: T.DataType
    timezone: str

    def width(self, seconds: float) -> float:
        """So many seconds in ordinals: a whole number where it can be one."""
        if isinstance(self.kind, T.DateType):
            return seconds / 86400
        if isinstance(self.kind, T.TimestampType | T.TimestampNTZType):
            return float(max(round(seconds * 1e6), 1)) if seconds else 0.0
        return seconds * 10.0**self._scale

    def bucket(self, times: NDArray, seconds: float | None) -> NDArray:
        """The number of the tumbling window of each time; one window when seconds is None."""
        if seconds is None:
            return np.zeros(len(times), np.int64)
        return np.floor_divide(times, self.width(seconds)).astype(np.int64)

    def column(self, times: NDArray) -> pa.Array:
        """Ordinals as values of the event-time column, with its type."""
        kind = to_arrow_type(self.kind, timezone="UTC")
        if isinstance(self.kind, T.DecimalType):
            exact = [decimal.Decimal(repr(t)).scaleb(-self._scale) for t in times.tolist()]
            step = decimal.Decimal(1).scaleb(-self.kind.scale)
            return pa.array([d.quantize(step, context=_EXACT) for d in exact], kind)
        if isinstance(self.kind, T.DateType):
            return pa.array(times.astype(np.int32)).cast(kind)
        if isinstance(self.kind, T.TimestampType | T.TimestampNTZType):
            return pa.array(times.astype(np.int64)).cast(kind)
        return pa.array(times.astype(kind.to_pandas_dtype()))

    def values(self, times: NDArray) -> pd.Series:
        """The same in pandas."""
        return pandas_of(pa.table({"ts": self.column(times)}), self.timezone)["ts"]

    @property
    def _scale(self) -> int:
        """Digits behind the point that an ordinal counts."""
        if isinstance(self.kind, T.DecimalType) and self.kind.precision <= LONG_DIGITS:
            return self.kind.scale
        return 0


def one_clock(kinds: Mapping[str, T.DataType], timezone: str) -> Clock:
    """The clock of streams that are read together: of several kinds of numbers the one that holds all."""
    (first, kind), *others = kinds.items()
    if len(set(kinds.values())) == 1:
        return Clock(kind, timezone)
    if all(isinstance(k, T.IntegralType) for k in kinds.values()):
        return Clock(T.LongType(), timezone)
    if all(isinstance(k, T.IntegralType | T.FloatType | T.DoubleType) for k in kinds.values()):
        return Clock(T.DoubleType(), timezone)
    name, other = next((n, k) for n, k in others if k != kind)
    raise DeadbandError(
        f"{first} and {name} tell time differently",
        detail=f"TIMESTAMP BY is {kind.simpleString()} in {first} and {other.simpleString()} in {name}",
        hint="declare the event times of streams that are read together with one type",
    )


def coarse(times: NDArray, buckets: NDArray) -> tuple[NDArray, NDArray]:
    """EMIT EVERY as coarser ticks: (coarse tick of each tick, last time in each coarse tick)."""
    if len(times) == 0:
        return np.zeros(0, np.int64), times
    last = np.append(buckets[1:] != buckets[:-1], True)
    return np.concatenate(([0], np.cumsum(last)[:-1])).astype(np.int64), times[last]
