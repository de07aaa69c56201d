"""Event time on the driver: ticks as ordinals, windows of seconds, and ordinals back to what users wrote."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import types as T

__all__ = ["Clock", "coarse"]


@dataclass(frozen=True)
class Clock:
    """The kind of an event-time column; ordinals are microseconds, days or the numbers themselves."""

    kind: T.DataType
    timezone: str

    @property
    def per_second(self) -> float:
        if isinstance(self.kind, T.TimestampType | T.TimestampNTZType):
            return 1e6
        return 1 / 86400 if isinstance(self.kind, T.DateType) else 1.0

    def bucket(self, times: NDArray, seconds: float | None) -> NDArray:
        """The number of the tumbling window of each time; one window when seconds is None."""
        if seconds is None:
            return np.zeros(len(times), np.int64)
        return np.floor_divide(times, seconds * self.per_second).astype(np.int64)

    def values(self, times: NDArray) -> pd.Series:
        """Ordinals as values of the event-time column."""
        if isinstance(self.kind, T.TimestampType):
            stamps = pd.to_datetime(pd.Series(times, dtype="int64"), unit="us", utc=True)
            return stamps.dt.tz_convert(self.timezone).dt.tz_localize(None)
        if isinstance(self.kind, T.TimestampNTZType):
            return pd.to_datetime(pd.Series(times, dtype="int64"), unit="us")
        if isinstance(self.kind, T.DateType):
            epoch = datetime.date(1970, 1, 1)
            return pd.Series([epoch + datetime.timedelta(days=int(t)) for t in times], dtype=object)
        if isinstance(self.kind, T.DecimalType):
            step = decimal.Decimal(1).scaleb(-self.kind.scale)
            return pd.Series([decimal.Decimal(repr(float(t))).quantize(step) for t in times], dtype=object)
        return pd.Series(times)


def coarse(times: NDArray, buckets: NDArray) -> tuple[NDArray, NDArray]:
    """EMIT EVERY as coarser ticks: (coarse tick of each tick, last time in each coarse tick)."""
    if len(times) == 0:
        return np.zeros(0, np.int64), times
    last = np.append(buckets[1:] != buckets[:-1], True)
    return np.concatenate(([0], np.cumsum(last)[:-1])).astype(np.int64), times[last]
