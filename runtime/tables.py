"""Static tables as the queries see them: read once, when the first query is created, and again at REFRESH TABLE."""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, SparkSession

from deadband.compiler.errors import DeadbandError
from deadband.runtime.sources.frames import quoted
from deadband.runtime.sql import SPARK_ERRORS, first_line

__all__ = ["StaticTables", "table_name"]


class StaticTables:
    """Snapshots of static tables, each under a temporary view of its own."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._views: dict[str, str] = {}
        self._retired: list[str] = []  # running queries may still compare with what they held
        self.version = 0  # grows with every refresh

    def view(self, name: str) -> str:
        """The view of a table's snapshot, taken now if there is none."""
        key = name.lower()
        if key not in self._views:
            view = f"__static_{uuid.uuid4().hex[:12]}"
            try:
                self._snapshot(self._spark.table(table_name(name))).createOrReplaceTempView(view)
            except SPARK_ERRORS as error:
                raise DeadbandError(f"{name} cannot be read", detail=first_line(error)) from error
            self._views[key] = view
        return self._views[key]

    def views(self, names: tuple[str, ...]) -> dict[str, str]:
        return {n: self.view(n) for n in names}

    def forget(self, name: str) -> None:
        """The next use reads the table again."""
        view = self._views.pop(name.lower(), None)
        if view is not None:
            self._retired.append(view)
            self.version += 1

    def close(self) -> None:
        for view in (*self._views.values(), *self._retired):
            self._spark.catalog.dropTempView(view)
        self._views, self._retired = {}, []

    @staticmethod
    def _snapshot(frame: DataFrame) -> DataFrame:
        """Rows as they are now: a lost executor fails the job rather than reading a file that has changed since."""
        return frame.localCheckpoint(eager=True)


def table_name(name: str) -> str:
    """A table's name, with its catalog and database where it has them, as Spark reads it."""
    return ".".join(map(quoted, name.split(".")))
