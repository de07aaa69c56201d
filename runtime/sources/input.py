"""The rows of one stream for one replay: where they come from, how many, at which times, refused ones counted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.compiler.errors import DeadbandError
from deadband.runtime.clock import Clock
from deadband.runtime.sources.batch import with_features
from deadband.runtime.sources.clean import REJECT, TIME, clean, schema_of
from deadband.runtime.sources.frames import as_frame
from deadband.runtime.sql import SPARK_ERRORS, first_line
from deadband.runtime.tables import table_name

__all__ = ["StreamInput", "read_source", "source_error"]

SMALL_BYTES = 64 << 20  # by Spark's own estimate: read on the driver without counting first


class StreamInput:
    """One stream's rows, cleaned, in Spark; looked at only as far as asked."""

    def __init__(self, spark: SparkSession, stream: Stream, data: Any | None, once: bool = False):
        """once: nothing but one collect() will look at the rows, if they fit on the driver."""
        self.stream = stream
        self._spark = spark
        self._size = len(data) if isinstance(data, pd.DataFrame | pa.Table) else None
        frame = read_source(spark, stream) if data is None else as_frame(spark, data, stream.name, ntz=True)
        self.frame = clean(frame, stream)
        self._collectable = once and self._size is None and _estimated_bytes(self.frame) <= SMALL_BYTES
        if self._size is None and not self._collectable:
            self.frame = self.frame.persist()  # read once, whatever asks: the clock, the kernels, the exact jobs

    def fits(self, rows: int) -> bool:
        """Whether the driver can take the rows; known without a job where Spark's estimate is small."""
        return self._collectable or self.rows <= rows

    @cached_property
    def clock(self) -> Clock:
        kind = schema_of(self._spark, self.stream)[self.stream.timestamp].dataType
        return Clock(kind, str(self._spark.conf.get("spark.sql.session.timeZone")))

    @cached_property
    def _counts(self) -> pa.Table:
        with _reading(self.stream):
            return self.frame.groupBy(TIME, REJECT).count().toArrow()

    @property
    def rows(self) -> int:
        """How many rows there are, refused ones included."""
        return self._size if self._size is not None else int(pc.sum(self._counts["count"]).as_py() or 0)

    @cached_property
    def times(self) -> NDArray:
        """The ticks: event times of good rows, each once, sorted."""
        good = self._counts.filter(pc.is_null(self._counts[REJECT]))
        return np.unique(good[TIME].to_numpy())

    @property
    def until(self) -> Any:
        """The last tick, as users write it; None: there is none."""
        return self.clock.values(self.times[-1:]).iloc[0] if len(self.times) else None

    @cached_property
    def rejected(self) -> dict[str, int]:
        """Refused rows by reason."""
        bad = self._counts.filter(pc.is_valid(self._counts[REJECT])).group_by(REJECT).aggregate([("count", "sum")])
        return dict(zip(bad[REJECT].to_pylist(), bad["count_sum"].to_pylist(), strict=True))

    def collect(self, features: Sequence[exp.Expr]) -> pa.Table:
        """Good rows on the driver: key, time, source order, deletion, features. Also tells times and refusals."""
        with _reading(self.stream):
            table = with_features(self.frame, self.stream, features).toArrow()
        refused = pc.is_valid(table[REJECT])
        reasons = table[REJECT].filter(refused).value_counts()
        self.__dict__["rejected"] = {r["values"]: r["counts"] for r in reasons.to_pylist()}
        table = table.filter(pc.invert(refused)).drop_columns([REJECT])
        self.__dict__["times"] = np.unique(table[TIME].to_numpy())
        self._size = len(refused)
        return table

    def good(self) -> DataFrame:
        return self.frame.where(F.col(REJECT).isNull()).drop(REJECT)

    def close(self) -> None:
        self.frame.unpersist()


def read_source(spark: SparkSession, stream: Stream) -> DataFrame:
    """A stream's declared source, as a bounded frame."""
    if stream.format is None:
        raise DeadbandError(
            f"stream {stream.name} has no rows",
            hint=f"give a frame, replay({{'{stream.name}': frame}}), or declare a source with USING",
        )
    options = dict(stream.options)
    with _reading(stream):
        if stream.format.lower() != "table":
            return spark.read.format(stream.format).options(**options).load()
        if "name" in options:
            return spark.table(table_name(options["name"]))
    raise DeadbandError(f"the source of {stream.name} needs a name", hint="USING table OPTIONS (name 'history')")


def _estimated_bytes(frame: DataFrame) -> int:
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


@contextlib.contextmanager
def _reading(stream: Stream) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise source_error(stream, error) from error


def source_error(stream: Stream, error: Exception) -> DeadbandError:
    return DeadbandError(f"the source of {stream.name} cannot be read", stream.span, detail=first_line(error))
