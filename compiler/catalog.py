"""What names stand for: streams, static tables and settings. Names compare without case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp
from sqlglot.schema import MappingSchema

from deadband.compiler import ast
from deadband.compiler.errors import DeadbandError, Span, did_you_mean

__all__ = ["LATER", "LATER_SETTINGS", "SETTINGS", "Catalog", "Stream", "Table"]

# Methods are settings, so that a reference method can run beside ours; the default comes first.
SETTINGS: dict[str, tuple[str, ...]] = {
    "split": ("exact", "naive", "optc", "random", "min-cost", "max-gain"),
    "filters": ("adaptive", "reference", "uniform", "none"),
    "pull": ("joint", "max", "positive-negative", "data", "every-tick"),
    "route": ("cost", "stabbing", "hotspots", "select-first", "join-first", "merge-scan", "probe"),
    "merge": ("grid", "pair", "directed", "clustering", "partition", "none"),
    "schedule": ("online", "flush", "astar", "replayed"),
    "eviction": ("learned", "heeb", "flowexpect", "prob", "life", "lru", "lfu", "rand"),
}

# Numbers that go with a method; they are read once its operator is there.
LATER_SETTINGS = (
    "split_alpha",
    "stabbing_epsilon",
    "hotspot_share",
    "merge_channel_cost",
    "merge_row_cost",
    "merge_extra_cost",
)
LATER = "it parses, and a later release will run it"


@dataclass(frozen=True)
class Stream:
    """A declared stream: columns in the spelling of the declaration, everything else in lower case."""

    name: str
    columns: dict[str, str]  # declared spelling -> Spark type
    key: tuple[str, ...]
    timestamp: str
    lateness: float = 0.0
    source_by: tuple[str, ...] = ()
    delete_when: str | None = None  # a Spark condition over the columns
    pull_every: float | None = None
    pull_span: Span | None = field(default=None, compare=False, repr=False)
    format: str | None = None
    options: tuple[tuple[str, str], ...] = ()  # for Spark's reader
    message_cost: str | None = None  # the column that says what a message from a key costs; None: all cost the same
    change_rate: float | str | None = None  # the most that a value changes a second: a number or a column
    span: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def types(self) -> dict[str, str]:
        return {c.lower(): t for c, t in self.columns.items()}

    @cached_property
    def spelling(self) -> dict[str, str]:
        """Lower-case column -> as it was declared."""
        return {c.lower(): c for c in self.columns}

    @cached_property
    def time_kind(self) -> str:
        """What the event time is; ticks of one kind can be ordered."""
        kind = exp.DataType.build(self.types[self.timestamp], dialect="spark").this
        if kind in exp.DataType.NUMERIC_TYPES:
            return "a number"
        if kind in (exp.DataType.Type.DATE, exp.DataType.Type.DATE32):
            return "a date"
        return "a timestamp without time zone" if kind == exp.DataType.Type.TIMESTAMPNTZ else "a timestamp"

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The columns that change: neither key nor event time."""
        return tuple(c for c in self.types if c not in self.key and c != self.timestamp)


@dataclass(frozen=True)
class Table:
    """A static table; columns is None while nothing is known of them."""

    name: str
    columns: dict[str, str] | None

    @cached_property
    def types(self) -> dict[str, str] | None:
        return None if self.columns is None else {c.lower(): t for c, t in self.columns.items()}


class Catalog:
    """Streams, tables and settings; find_table looks further for a table that was not declared here."""

    def __init__(
        self,
        tables: dict[str, dict[str, str] | None] | None = None,
        find_table: Callable[[str], dict[str, str] | None] | None = None,
    ):
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.settings: dict[str, str] = {name: values[0] for name, values in SETTINGS.items()}
        self._find_table = find_table
        self._schema: MappingSchema | None = None
        self.version = 0  # grows with every change: what was bound before may bind otherwise now
        for name, columns in (tables or {}).items():
            self.add_table(Table(name, columns))

    def add_stream(self, stream: Stream) -> None:
        self.tables.pop(stream.name.lower(), None)
        self.streams[stream.name.lower()] = stream
        self._changed()

    def add_table(self, table: Table) -> None:
        self.tables[table.name.lower()] = table
        self._changed()

    def drop_stream(self, name: str) -> None:
        del self.streams[name.lower()]
        self._changed()

    def forget_table(self, name: str) -> None:
        self.tables.pop(name.lower(), None)
        self._changed()

    def relation(self, name: str) -> Stream | Table | None:
        """The stream or table of that name, or None."""
        key = name.lower()
        if key in self.streams:
            return self.streams[key]
        if key not in self.tables and self._find_table is not None:
            columns = self._find_table(key)
            if columns is not None:
                self.add_table(Table(key, columns))
        return self.tables.get(key)

    def stream(self, name: ast.Name) -> Stream:
        """The stream of that name, or an error that names the nearest."""
        if name.key not in self.streams:
            if name.key in self.tables:
                raise DeadbandError(
                    f"{name.text} is a table, not a stream", name.span, hint="streams are made by CREATE STREAM"
                )
            hint = did_you_mean(name.text, (s.name for s in self.streams.values())) or "declare it with CREATE STREAM"
            raise DeadbandError(f"unknown stream {name.text}", name.span, hint=hint)
        return self.streams[name.key]

    def names(self) -> Iterable[str]:
        return [r.name for r in self._relations()]

    @property
    def schema(self) -> MappingSchema:
        """The columns of everything known, for sqlglot; made once for many queries."""
        if self._schema is None:
            known: dict[str, object] = {r.name.lower(): r.types for r in self._relations() if r.types}
            self._schema = MappingSchema(known, dialect="spark", normalize=False)
        return self._schema

    def set(self, statement: ast.SetSetting) -> None:
        """SET name = value, checked against the known settings."""
        name, value = statement.name.key, statement.value.lower()
        if name in LATER_SETTINGS:
            raise DeadbandError(f"{name} is not supported yet", statement.name.span, hint=LATER)
        if name not in SETTINGS:
            hint = (
                did_you_mean(name, SETTINGS) or f"settings are {', '.join(SETTINGS)}; Spark's have a dot in their name"
            )
            raise DeadbandError(f"unknown setting {statement.name.text}", statement.name.span, hint=hint)
        if value not in SETTINGS[name]:
            hint = did_you_mean(value, SETTINGS[name]) or f"use one of {', '.join(SETTINGS[name])}"
            raise DeadbandError(f"unknown value for {name}: {statement.value}", statement.value_span, hint=hint)
        self.settings[name] = value  # no new version: a body binds the same under any method

    def _relations(self) -> list[Stream | Table]:
        return [*self.streams.values(), *self.tables.values()]

    def _changed(self) -> None:
        self._schema = None
        self.version += 1
