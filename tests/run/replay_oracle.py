"""Plain SQL at every tick, by DuckDB over the rows in force, and whether answers keep their promise against it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot

ROUNDING = 1e-9  # DuckDB's own sums, relative to what is summed here


@dataclass
class Stream:
    """Rows of a stream in source order; those that deadband is to refuse are not in here."""

    name: str
    schema: pa.Schema
    key: list[str]
    time: str
    rows: list[dict] = field(default_factory=list)
    gone: object = staticmethod(lambda row: False)  # DELETE WHEN

    @property
    def ticks(self) -> list:
        return sorted({row[self.time] for row in self.rows})

    def in_force(self, tick) -> pa.Table:
        """The latest row of every key with event time <= tick, deleted keys left out."""
        latest: dict = {}
        for row in sorted((r for r in self.rows if r[self.time] <= tick), key=lambda r: r[self.time]):  # stable
            latest[tuple(row[k] for k in self.key)] = row
        return pa.Table.from_pylist([r for r in latest.values() if not self.gone(r)], schema=self.schema)

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=self.schema)


class PlainSql:
    """Answers of bodies over the rows of streams in force at each tick, and static tables."""

    def __init__(self, streams: list[Stream], tables: dict[str, pa.Table]):
        self.duck = duckdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'")
        self.streams = streams
        for name, table in tables.items():
            self.duck.register(name, table)
        self.ticks = sorted({t for s in streams for t in s.ticks})

    def answers(self, bodies: list[str]) -> dict[str, list[list[dict]]]:
        """For each body the rows at every tick."""
        texts = {body: sqlglot.transpile(body, read="spark", write="duckdb")[0] for body in bodies}
        found: dict[str, list[list[dict]]] = {body: [] for body in bodies}
        for tick in self.ticks:
            for stream in self.streams:
                self.duck.register(stream.name, stream.in_force(tick))
            for body, text in texts.items():
                found[body].append(self.duck.sql(text).to_arrow_table().to_pylist())
        return found


def in_force(answers: pd.DataFrame, groups: list[str], ticks: list) -> list[dict[tuple, dict]]:
    """The reported row of each group at every tick: the last one at or before it, withdrawn ones gone."""
    records = [{c: plain(v) for c, v in r.items()} for r in answers.to_dict("records")]
    assert [r["ts"] for r in records] == sorted(r["ts"] for r in records)
    assert {r["ts"] for r in records} <= set(ticks)
    found, now, at = [], {}, 0
    for tick in ticks:
        told = set()
        while at < len(records) and records[at]["ts"] == tick:
            row, at = records[at], at + 1
            group = tuple(row[g] for g in groups)
            assert group not in told, "one row per group and tick"
            told.add(group)
            if row["diff"] == 1:
                now[group] = row
            else:
                assert row["diff"] == -1 and now.pop(group)
        found.append(dict(now))
    assert at == len(records)
    return found


def misses(
    reported: dict[tuple, dict], truth: list[dict], groups: list[str], bounds: dict[str, str]
) -> dict[tuple, str]:
    """What is wrong with the answers at one tick, by group; bounds: column -> '5' or '5%', none: exact."""
    wrong: dict[tuple, str] = {}
    true = {tuple(plain(row[g]) for g in groups): row for row in truth}
    for group in {*true, *reported}:
        if group not in reported or group not in true:
            wrong[group] = f"{'missing' if group in true else 'extra'}: {true.get(group)} {reported.get(group)}"
            continue
        for column, value in true[group].items():
            said, is_true = reported[group][column], plain(value)
            if column not in groups and not is_within(said, is_true, bounds.get(column, "0")):
                wrong[group] = f"{column}: {said} against {is_true} within {bounds.get(column, 0)}"
    return wrong


def is_within(said, true, bound: str) -> bool:
    if said is None or true is None:
        return said is None and true is None
    said, true = float(said), float(true)
    reach = float(bound.rstrip("%")) * (abs(said) / 100 if bound.endswith("%") else 1)
    return abs(said - true) <= reach + ROUNDING * (1 + abs(true))


def interval_misses(
    reported: dict[tuple, dict], truth: list[dict], groups: list[str], bounds: dict[str, str]
) -> dict[tuple, str]:
    """The same for PRECISION: truth in [low, high], which is no wider than its bound; other columns are exact."""
    wrong: dict[tuple, str] = {}
    true = {tuple(plain(row[g]) for g in groups): row for row in truth}
    for group in {*true, *reported}:
        if group not in reported or group not in true:
            wrong[group] = f"{'missing' if group in true else 'extra'}: {true.get(group)} {reported.get(group)}"
            continue
        said = reported[group]
        for column, value in true[group].items():
            if column in bounds:
                prefix = "" if len(bounds) == 1 else f"{column}_"
                ends, is_true = (said[f"{prefix}low"], said[f"{prefix}high"]), plain(value)
                if not _holds(*ends, is_true, bounds[column]) or not is_within(
                    said[column], is_true, str(_width(ends))
                ):
                    wrong[group] = f"{column}: {said[column]} in {ends} against {is_true} within {bounds[column]}"
            elif column not in groups and not is_within(said[column], plain(value), "0"):
                wrong[group] = f"{column}: {said[column]} against {value}"
    return wrong


def _width(ends: tuple) -> float:
    return 0.0 if ends[0] is None else ends[1] - ends[0]


def _holds(low, high, true, bound: str) -> bool:
    if low is None or high is None or true is None:
        return low is None and high is None and true is None
    slack = ROUNDING * (1 + abs(float(true)))
    reach = float(bound.rstrip("%")) * (min(abs(low), abs(high)) / 100 if bound.endswith("%") else 1)
    return low - slack <= float(true) <= high + slack and 0 <= high - low <= reach + slack


def plain(value):
    """Python's own None and numbers for those of pandas, numpy and decimals."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return value.item() if hasattr(value, "item") else value


@pytest.fixture(scope="module")
def quick(spark):
    """Small jobs: compiling code for them takes longer than running without."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)
