"""The interactive shell: statements ended by a semicolon, and a few commands that begin with a dot."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

import deadband
from deadband.compiler import ast
from deadband.compiler.errors import DeadbandError, did_you_mean
from deadband.compiler.parse import parse
from deadband.grammar import load_parser
from deadband.session import ROWS, Replayed, as_error, execute, replay, tell_error
from deadband.show import show_frame, show_report, show_rows

if TYPE_CHECKING:
    from deadband.runtime.connection import Connection

__all__ = ["Shell"]

PROMPT, MORE = "deadband> ", "      ... "
HELP = """\
Statements end with a semicolon and may take several lines:
  CREATE STREAM … ;  CREATE CONTINUOUS QUERY … ;  ANALYZE STREAM … ;  EXPLAIN … ;  SELECT … ;  SHOW STREAMS;

  .replay             replay all continuous queries over their sources, and report
  .report             the report of the last replay again
  .answers NAME [N]   the first N changes of a query in the last replay (20)
  .queries            the continuous queries
  .help               this
  .quit               leave; Ctrl-D does so too

Ctrl-C clears the input, or stops what runs."""


class Shell:
    """Reads, runs, shows, and goes on after mistakes."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Connection]]):
        self._connect = connect
        self._resources = ExitStack()
        self._db: Connection | None = None
        self._last: Replayed | None = None
        self._talks = sys.stdin.isatty()
        self._failed = False

    def run(self, statements: list[ast.Statement]) -> int:
        """Runs the statements given, then those of standard input; the exit code."""
        with self._resources:
            with self._guarded():
                for statement in statements:
                    self._execute(statement)
            if self._talks:
                click.echo(f"Deadband {deadband.__version__}. Statements end with a semicolon; .help tells more.")
            with _history() if self._talks else contextlib.nullcontext():
                for text in self._inputs():
                    if text.startswith(".") and text.split()[0] in (".quit", ".exit"):
                        break
                    with self._guarded():
                        self._input(text)
        return 1 if self._failed and not self._talks else 0

    def _inputs(self) -> Iterator[str]:
        """Complete statements, and commands; in piped text, empty lines before a statement keep its line numbers."""
        text, first, number = "", 1, 0
        while True:
            try:
                line = input(MORE if text else PROMPT) if self._talks else next(sys.stdin).rstrip("\n")
                number += 1
                if not text and line.lstrip().startswith("."):
                    whole, text, first = line.strip(), "", number + 1
                else:
                    whole, text = complete(text + line + "\n")
                    whole, first = whole and self._placed(whole, first), number if whole else first
                if is_blank(text):
                    text, first = "", number + 1
            except KeyboardInterrupt:
                if not self._talks:
                    raise
                text = ""
                click.echo()
                continue
            except (EOFError, StopIteration):
                break
            if whole:
                yield whole
        if self._talks:
            click.echo()
        elif text:
            yield self._placed(text, first)

    def _placed(self, text: str, line: int) -> str:
        return text if self._talks else "\n" * (line - 1) + text

    def _input(self, text: str) -> None:
        if text.startswith("."):
            self._command(*text.split())
            return
        for statement in parse(text, "input" if self._talks else "<stdin>"):
            self._execute(statement)

    def _execute(self, statement: ast.Statement) -> None:
        result = execute(self.db, statement)
        if not self._talks:
            return
        if isinstance(statement, ast.CreateQuery):
            (plan,) = [p for p in self.db.plans() if p.name.lower() == statement.name.key]
            click.echo(f"{plan.name}: {plan.tree.op}, {plan.guarantee}")
        elif result is None or not (isinstance(result, deadband.Plan) or result.columns):
            click.echo("ok")

    def _command(self, name: str, *words: str) -> None:
        commands: dict[str, Callable] = {
            ".help": lambda: click.echo(HELP),
            ".queries": self._queries,
            ".replay": self._replay,
            ".report": self._report,
            ".answers": self._answers,
        }
        if name not in commands:
            hint = did_you_mean(name, [*commands, ".quit"])
            raise DeadbandError(f"unknown command {name}", hint=hint or ".help lists the commands")
        most = 2 if name == ".answers" else 0
        if len(words) > most or (most and not words):
            usage = f"{name} NAME [N]" if most else name
            raise DeadbandError(f"{name} is written {usage}")
        commands[name](*words)

    def _queries(self) -> None:
        plans = self.db.plans() if self._db is not None else []
        if not plans:
            click.echo("no continuous queries yet")
            return
        rows = [(p.name, p.query.shape.name, p.tree.op, p.guarantee) for p in plans[:ROWS]]
        note = f"… {len(plans) - ROWS:,} more" if len(plans) > ROWS else None
        show_rows(("query", "shape", "operator", "promise"), rows, note)

    def _replay(self) -> None:
        self._last = replay(self.db)
        self._report()

    def _report(self) -> None:
        last = self._replayed()
        show_report(last.run.report(), last.plans, last.seconds, last.total)

    def _answers(self, name: str, limit: str = str(ROWS)) -> None:
        if not limit.isdecimal():
            raise DeadbandError(f"{limit} is not a number of rows")
        show_frame(self._replayed().run.answers(name), int(limit), f"changes of {name}")

    def _replayed(self) -> Replayed:
        if self._last is None:
            raise DeadbandError("nothing has been replayed yet", hint=".replay does it")
        return self._last

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A mistake is told, and the shell goes on."""
        try:
            yield
        except KeyboardInterrupt:
            if not self._talks:
                raise
            if self._db is not None:
                self._db.spark.sparkContext.cancelAllJobs()  # the handler of pyspark cannot, in the middle of a call
            click.echo("stopped", err=True)
        except Exception as error:
            told = as_error(error)
            if told is None:
                raise
            self._failed = True
            tell_error(told)

    @property
    def db(self) -> Connection:
        if self._db is None:
            self._db = self._resources.enter_context(self._connect())
        return self._db


def complete(text: str) -> tuple[str, str]:
    """The statements that are complete, and the rest: they end at semicolons outside strings, names and comments."""
    end = max((token.end() for token in _tokens().finditer(text) if token[0] == ";"), default=0)
    return text[:end], text[end:]


def is_blank(text: str) -> bool:
    """Nothing but space and comments that are closed."""
    return not re.sub(_terminals()["COMMENT"], "", text).strip()


@cache
def _tokens() -> re.Pattern[str]:
    """Strings and comments as the grammar has them, closed or not; quoted names; semicolons."""
    string, comment = _terminals()["STRING"], _terminals()["COMMENT"]
    return re.compile(rf"{comment}|/\*[\s\S]*|{string}|['\"][\s\S]*|`(?:[^`]|``)*(?:`|$)|;")


@cache
def _terminals() -> dict[str, str]:
    return {t.name: t.pattern.to_regexp() for t in load_parser().terminals}


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Lines of earlier sessions, where readline is there."""
    try:
        import readline
    except ImportError:
        yield
        return
    state = os.environ.get("XDG_STATE_HOME")
    path = Path(state) / "deadband" / "history" if state else Path.home() / ".deadband_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(2000)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
