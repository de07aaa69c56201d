"""What every operator may use: the session, the snapshots of static tables, and where kernels run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from deadband.compiler.bind.template import PARAMETERS, QUERY
from deadband.compiler.logical import Group
from deadband.runtime.sources.clean import schema_of
from deadband.runtime.sources.frames import from_arrow
from deadband.runtime.sources.item_statistics import ItemStatistics
from deadband.runtime.sql import run_query, temp_views
from deadband.runtime.tables import StaticTables

__all__ = ["Context", "parameters"]

_ARROW = {"STRING": pa.string(), "INT": pa.int32(), "DOUBLE": pa.float64()}


@dataclass
class Context:
    spark: SparkSession
    tables: StaticTables
    driver_rows: int = 5_000_000  # above this many rows, kernels run on executors
    threads: int = field(default_factory=lambda: os.cpu_count() or 2)
    statistics: dict[str, ItemStatistics] = field(default_factory=dict)  # by stream: what was analysed or loaded

    def result_schema(self, group: Group) -> T.StructType:
        """The columns Spark gives the body: analysed over empty streams, nothing runs."""
        body = group.first.body
        empty = {s.name.lower(): self.spark.createDataFrame([], schema_of(self.spark, s)) for s in body.streams}
        with temp_views(empty) as views:
            return run_query(self.spark, body.query, {**views, **self.tables.views(body.tables)}).schema


def parameters(spark: SparkSession, group: Group) -> dict[str, DataFrame]:
    """The parameter table of a folded group, under its name; nothing for a query on its own."""
    if len(group.queries) == 1:
        return {}
    columns = {QUERY: pa.array(range(len(group.queries)), pa.int32())}
    for i, kind in enumerate(group.first.template.types):
        columns[f"p{i}"] = pa.array([q.literals[i] for q in group.queries], _ARROW[kind])
    return {PARAMETERS: from_arrow(spark, pa.table(columns))}
