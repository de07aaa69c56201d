"""What was written: one class per statement and clause of grammar/deadband.lark, each with its span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deadband.compiler.errors import Span

# ---------------------------------------------------------------- names, values, SQL text


@dataclass(frozen=True)
class Name:
    text: str
    span: Span

    @property
    def key(self) -> str:
        """The name as it is compared: without case."""
        return self.text.lower()


@dataclass(frozen=True)
class Sql:
    """A stretch of SQL for sqlglot; positions in it count from span.start."""

    text: str
    span: Span


@dataclass(frozen=True)
class Interval:
    seconds: float
    text: str
    span: Span


@dataclass(frozen=True)
class Bound:
    """At most this far: an absolute amount, or a fraction of the value when percent."""

    amount: float
    percent: bool
    span: Span

    def __str__(self) -> str:
        return f"{self.amount * 100:.12g}%" if self.percent else f"{self.amount:.12g}"


@dataclass(frozen=True)
class Option:
    name: Name
    value: str
    value_span: Span


# ---------------------------------------------------------------- CREATE STREAM


@dataclass(frozen=True)
class Column:
    name: Name
    type: Sql


@dataclass(frozen=True)
class CreateStream:
    name: Name
    columns: tuple[Column, ...]
    key: tuple[Name, ...]
    timestamp_by: Name | None
    lateness: Interval | None
    source_by: tuple[Name, ...]
    delete_when: Sql | None
    pull_every: Interval | None
    using: Name | None
    options: tuple[Option, ...]
    if_not_exists: bool
    span: Span


# ---------------------------------------------------------------- CREATE CONTINUOUS QUERY and its clauses


@dataclass(frozen=True)
class Within:
    column: Name | None
    bound: Bound
    span: Span


@dataclass(frozen=True)
class Coherency:
    bounds: tuple[Within, ...]
    span: Span


@dataclass(frozen=True)
class Precision:
    bounds: tuple[Within, ...]
    span: Span


@dataclass(frozen=True)
class Fidelity:
    share: float
    window: Interval | None
    span: Span


@dataclass(frozen=True)
class Response:
    interval: Interval
    span: Span


@dataclass(frozen=True)
class Notify:
    condition: Sql
    span: Span


@dataclass(frozen=True)
class Memory:
    rows: int
    span: Span


@dataclass(frozen=True)
class EmitEvery:
    interval: Interval
    span: Span


@dataclass(frozen=True)
class Into:
    format: Name
    options: tuple[tuple[str, str], ...]
    span: Span


Clause: TypeAlias = Coherency | Precision | Fidelity | Response | Notify | Memory | EmitEvery | Into


@dataclass(frozen=True)
class Query:
    body: Sql
    clauses: tuple[Clause, ...]
    span: Span

    def clause(self, kind: type) -> Clause | None:
        return next((c for c in self.clauses if isinstance(c, kind)), None)


@dataclass(frozen=True)
class CreateQuery:
    name: Name
    query: Query
    if_not_exists: bool
    or_replace: bool
    span: Span


@dataclass(frozen=True)
class AlterQuery:
    name: Name
    clause: Clause
    span: Span


@dataclass(frozen=True)
class Drop:
    kind: str  # CONTINUOUS QUERY, STREAM or AGGREGATOR
    name: Name
    if_exists: bool
    span: Span


# ---------------------------------------------------------------- CREATE AGGREGATOR, ANALYZE


@dataclass(frozen=True)
class Served:
    item: str
    bound: Bound


@dataclass(frozen=True)
class CreateAggregator:
    name: Name
    stream: Name
    column: Name | None
    serves: tuple[Served, ...]
    span: Span


@dataclass(frozen=True)
class CreateAggregators:
    stream: Name
    body: Sql
    span: Span


@dataclass(frozen=True)
class AnalyzeStream:
    stream: Name
    history: Sql | None
    span: Span


# ---------------------------------------------------------------- REFRESH, SHOW, SET, EXPLAIN, the rest


@dataclass(frozen=True)
class RefreshTable:
    table: Name
    span: Span


@dataclass(frozen=True)
class Show:
    what: str  # CONTINUOUS QUERIES, STREAMS, AGGREGATORS, STATISTICS or SETTINGS
    span: Span


@dataclass(frozen=True)
class SetSetting:
    name: Name
    value: str
    value_span: Span
    span: Span


@dataclass(frozen=True)
class Explain:
    target: CreateQuery | Query | Name
    analyze: bool
    format: str  # TEXT, JSON, MERMAID or HTML
    verbose: bool
    span: Span


@dataclass(frozen=True)
class SparkSql:
    sql: Sql
    span: Span


Statement: TypeAlias = (
    CreateStream
    | CreateQuery
    | AlterQuery
    | Drop
    | CreateAggregator
    | CreateAggregators
    | AnalyzeStream
    | RefreshTable
    | Show
    | SetSetting
    | Explain
    | SparkSql
)
