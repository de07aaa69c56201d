"""Deadband: standing SQL queries that say how exact they must be, and pay only for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deadband.compiler.errors import DeadbandError
from deadband.compiler.explain import Plan

if TYPE_CHECKING:
    from deadband.runtime.connection import Connection

__all__ = ["DeadbandError", "Plan", "compile", "connect"]
__version__ = "0.1.0"


def compile(sql: str, tables: dict[str, dict[str, str] | None] | None = None, *, name: str = "<sql>") -> list[Plan]:
    """The plans of a text's continuous queries. Opens nothing: no files, no Spark, no Java.

    tables gives the columns of static tables that the text does not declare: {"holdings": {"account": "string", …}}.
    """
    from deadband.compiler.program import compile_text

    return compile_text(sql, tables, name)


def connect(spark: Any = None, **options: Any) -> Connection:
    """A connection that runs statements: on its own local SparkSession, or on the one given."""
    from deadband.runtime.connection import Connection

    return Connection(spark, **options)
