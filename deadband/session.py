"""What the commands share: reading files, checking them before Spark starts, connecting, replaying, telling errors."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import deadband
from deadband.compiler import ast
from deadband.compiler.catalog import Catalog, Stream, Table
from deadband.compiler.errors import DeadbandError
from deadband.compiler.explain import Plan
from deadband.compiler.parse import parse
from deadband.compiler.program import Program
from deadband.show import groups_of, show_rows

if TYPE_CHECKING:
    from deadband.runtime.connection import Connection
    from deadband.runtime.replay import Run

__all__ = [
    "ROWS",
    "Replayed",
    "as_error",
    "compiled",
    "connected",
    "execute",
    "precheck",
    "read",
    "replay",
    "status",
    "tell_error",
]

ROWS = 20  # of a result, unless more are asked for


@dataclass(frozen=True)
class Replayed:
    """A finished replay, the plans that ran, and the seconds they took."""

    run: Run
    plans: list[Plan]
    seconds: dict[str, float]  # by query; those of a folded group are one, under its first
    total: float


def read(file: str) -> list[ast.Statement]:
    """The statements of a file; - is standard input."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise DeadbandError(f"{file} cannot be read: {reason}") from error
    return parse(text, "<stdin>" if file == "-" else file)


def compiled(statements: list[ast.Statement], catalog: Catalog | None = None) -> Program:
    program = Program(catalog or Catalog())
    for statement in statements:
        program.add(statement)
    return program


class _AskSpark(Exception):
    """A table that the text does not declare; Spark may know it."""


class _Declared(Catalog):
    def relation(self, name: str) -> Stream | Table:
        found = super().relation(name)
        if found is None:
            raise _AskSpark
        return found


def precheck(statements: list[ast.Statement]) -> list[str] | None:
    """Finds mistakes before Spark takes its seconds to start; the queries' names, None where only Spark can tell."""
    try:
        return [q.name for q in compiled(statements, _Declared()).queries.values()]
    except _AskSpark:
        return None


@contextlib.contextmanager
def connected(session: Any, conf: tuple[str, ...] = ()) -> Iterator[Connection]:
    """A connection to the session given, or to a local one that ends with it."""
    settings = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{setting} is not KEY=VALUE", param_hint="--conf")
        settings[key] = value
    with status("starting Spark"):
        db = deadband.connect(session, **settings)
    if session is None:  # what fails is told once, by us
        db.spark.sparkContext.setLogLevel("OFF")
        logging.getLogger().addHandler(logging.NullHandler())
    with db:
        yield db


@contextlib.contextmanager
def status(what: str) -> Iterator[None]:
    """A line on the terminal while something takes its time; on a descriptor of its own, as 2 is muted meanwhile."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal, Console(file=terminal).status(what):
        yield


def execute(db: Connection, statement: ast.Statement, limit: int = ROWS) -> Any:
    """Runs a statement and shows what it gives: a plan as text, rows as a table, nothing for nothing."""
    rows: list = []
    asks_spark = isinstance(statement, ast.SparkSql | ast.Explain | ast.Show | ast.AnalyzeStream)
    with status(" ".join(statement.span.text.split())[:60]) if asks_spark else contextlib.nullcontext():
        result = db.execute(statement)
        if result is not None and not isinstance(result, Plan) and result.columns:
            rows = result.limit(limit + 1).collect()
    if isinstance(result, Plan):
        click.echo(f"{result}\n")
    elif result is not None and result.columns:
        note = f"the first {limit} rows; there are more" if len(rows) > limit else None
        show_rows(result.columns, rows[:limit], note)
    return result


def as_error(error: Exception) -> DeadbandError | None:
    """What users are told of an error; None for a defect of ours, which deserves its traceback."""
    if isinstance(error, DeadbandError):
        return error
    if type(error).__module__.split(".")[0] in ("pyspark", "py4j"):
        cause = getattr(error, "java_exception", None) or error  # py4j's own words tell little
        return DeadbandError("Spark has failed", detail=str(cause).split("\n")[0])
    return None


def tell_error(error: DeadbandError) -> None:
    click.echo(str(error) if error.span is not None else f"deadband: {error}", err=True)


def replay(db: Connection) -> Replayed:
    """Replays all queries, under a progress bar where someone looks."""
    from deadband.runtime.progress import bar

    plans = db.plans()
    began: list[tuple[str, float]] = []
    start = time.monotonic()
    with bar() if sys.stderr.isatty() else contextlib.nullcontext() as move:

        def progress(what: str, done: int, total: int) -> None:
            if not began or began[-1][0] != what.removesuffix(": tick"):
                began.append((what.removesuffix(": tick"), time.monotonic()))
            if move is not None:
                move(what, done, total)

        run = db.replay(progress=progress)
    end = time.monotonic()
    spent = {what: until - at for (what, at), (_, until) in zip(began, [*began[1:], ("", end)])}
    seconds = {p.name: spent[label] for p in groups_of(plans) if (label := _called(p)) in spent}
    return Replayed(run, plans, seconds, end - start)


def _called(plan: Plan) -> str:
    """What progress calls a group of queries."""
    more = len(plan.choice.operator.group.queries) - 1
    return f"{plan.name} and {more} more" if more else plan.name
