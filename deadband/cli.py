"""The deadband command: run, explain, check and shell.

Commands take a SparkSession as click's context object; without one each starts its own, and check none at all.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace as with_changes
from typing import TYPE_CHECKING, Any

import click

import deadband
from deadband.compiler import ast
from deadband.compiler.catalog import Catalog
from deadband.compiler.errors import DeadbandError, did_you_mean
from deadband.compiler.explain import Plan
from deadband.compiler.program import Program
from deadband.session import (
    ROWS,
    as_error,
    compiled,
    connected,
    execute,
    precheck,
    read,
    replay,
    status,
    tell_error,
)
from deadband.show import cell, groups_of, records, show_frame, show_plans, show_report, to_json

if TYPE_CHECKING:
    from deadband.runtime.connection import Connection
    from deadband.runtime.report import Report

__all__ = ["main"]


class _Cli(click.Group):
    """Users' mistakes end with a message and 1, Ctrl-C with 130; usage errors are click's, with 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(130)
        except Exception as error:
            told = as_error(error)
            if told is None:
                raise
            tell_error(told)
            ctx.exit(1)


@click.group(cls=_Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deadband.__version__, prog_name="deadband", message="%(prog)s %(version)s")
def main() -> None:
    """Standing SQL queries that know how exact they have to be.

    \b
    Examples:
      deadband check examples/portfolio.sql     compile only; needs no Java
      deadband explain examples/portfolio.sql   what is promised, what runs, what it should cost
      deadband run examples/portfolio.sql       replay the streams and count
      deadband shell                            statements one by one
    """


SOURCE = click.Path(exists=True, dir_okay=False, allow_dash=True)
FILE = click.argument("file", metavar="FILE", type=SOURCE)
CONF = click.option(
    "--conf", metavar="KEY=VALUE", multiple=True, help="A Spark setting, like spark.driver.memory=8g; may be repeated."
)


# ---------------------------------------------------------------- run


@main.command()
@FILE
@click.option("-q", "--quiet", is_flag=True, help="Leave the plans out.")
@click.option(
    "--json", "as_json", is_flag=True, help="Only JSON on standard output: plans, report, and answers if asked for."
)
@click.option("--answers", metavar="NAME", help="Show the changes of this query, too.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), help=f"How many changes to show; {ROWS} unless given."
)
@click.option(
    "--csv", "as_csv", is_flag=True, help="Only the changes of --answers on standard output, all of them, as CSV."
)
@click.option("--live", is_flag=True, help="Stream: follow the sources, print changes as they come, until Ctrl-C.")
@click.option(
    "--checkpoint",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where --live keeps its state; it goes on from there.",
)
@click.option("--trigger", metavar="INTERVAL", help="How often --live looks for rows, like '1 second'.")
@click.option("--once", is_flag=True, help="With --live: take what is there, then stop.")
@CONF
@click.pass_context
def run(
    ctx: click.Context,
    file: str,
    quiet: bool,
    as_json: bool,
    answers: str | None,
    limit: int | None,
    as_csv: bool,
    live: bool,
    checkpoint: str | None,
    trigger: str | None,
    once: bool,
    conf: tuple[str, ...],
) -> None:
    """Run the statements of FILE and replay its continuous queries.

    The streams are replayed from their sources on a local Spark. The report counts, for each query, the messages
    that its bound needs against sending every change (the baseline), and the largest error. - is standard input.

    \b
    Examples:
      deadband run examples/portfolio.sql
      deadband run examples/portfolio.sql --answers portfolio --limit 5
      deadband run examples/portfolio.sql --json | jq .report.total
      deadband run quotes.sql --live --checkpoint state/ --trigger '1 second'
    """
    if live and checkpoint is None:
        raise click.UsageError("--live needs --checkpoint DIR, where its state survives a restart.")
    if not live and (checkpoint is not None or trigger is not None or once):
        raise click.UsageError("--checkpoint, --trigger and --once belong to --live.")
    if once and trigger is not None:
        raise click.UsageError("--once takes what is there at once, without a --trigger.")
    if live and (answers is not None or as_csv):
        raise click.UsageError("--live prints all changes; --answers and --csv belong to a replay.")
    if as_csv and (answers is None or as_json):
        raise click.UsageError("--csv needs --answers NAME, and goes without --json.")
    if limit is not None and answers is None:
        raise click.UsageError("--limit belongs to --answers NAME.")
    statements = read(file)
    known = precheck(statements)
    if known is not None and answers is not None and answers.lower() not in (n.lower() for n in known):
        raise DeadbandError(f"unknown continuous query {answers}", hint=did_you_mean(answers, known))
    machine = as_json or as_csv
    with connected(ctx.obj, conf) as db:
        for statement in statements:
            if not machine:
                execute(db, statement)
            elif not isinstance(statement, ast.Explain | ast.Show):
                db.execute(statement)
        if not db.queries:
            click.echo("nothing to run: there is no CREATE CONTINUOUS QUERY", err=True)
        elif not (quiet or machine):
            show_plans(db.plans())
        if live and db.queries:
            assert checkpoint is not None
            stream(db, checkpoint, trigger, once, as_json)
        elif as_csv:
            assert answers is not None
            changes = replay(db).run.answers(answers)
            click.echo((changes if limit is None else changes.head(limit)).to_csv(index=False), nl=False)
        elif as_json:
            click.echo(to_json(replay_json(db, answers, limit)))
        elif db.queries:
            replay_tables(db, answers, ROWS if limit is None else limit)


def replay_tables(db: Connection, answers: str | None, limit: int) -> None:
    """Replays, and shows the report, the changes asked for, and where changes went."""
    done = replay(db)
    show_report(done.run.report(), done.plans, done.seconds, done.total)
    if answers is not None:
        show_frame(done.run.answers(answers), limit, f"changes of {answers}")
    for plan in done.plans:
        if plan.query.into is not None:
            into = plan.query.into
            click.echo(f"the changes of {plan.name} are in {dict(into.options).get('path', into.format.text)}")


def replay_json(db: Connection, answers: str | None, limit: int | None) -> dict[str, Any]:
    """Replays, and gives plans, report and seconds, and the changes asked for."""
    if not db.queries:
        return {"version": 1, "plans": [], "report": {"queries": {}, "total": {}}, "seconds": 0.0}
    done = replay(db)
    found = {"version": 1, "plans": [p.json for p in done.plans], "report": report_json(done.run.report())}
    found |= {"seconds": round(done.total, 3)}
    if answers is not None:
        changes = done.run.answers(answers)
        found["answers"] = {answers: records(changes if limit is None else changes.head(limit))}
    return found


def report_json(report: Report) -> dict[str, Any]:
    return {"queries": dict(report), "total": report.total}


def stream(db: Connection, checkpoint: str, trigger: str | None, once: bool, as_json: bool) -> None:
    """Runs the queries live, printing changes as they come; ends by Ctrl-C, or with --once when all is taken."""
    gone = threading.Event()  # nobody reads what we print

    def printer(name: str) -> Callable[[Any, dict, int], None]:
        def on_change(ts: Any, row: dict, diff: int) -> None:
            if as_json:
                line = to_json({"query": name, "ts": str(ts), "diff": int(diff), "row": row}, indent=None)
            else:
                nulls = {k for k, v in row.items() if isinstance(v, float) and v != v}  # as pandas has them
                values = "  ".join(f"{k} {'NULL' if k in nulls else cell(v)}" for k, v in row.items())
                line = f"{ts}  {name}  {'+' if diff > 0 else '-'}  {values}"
            try:
                click.echo(line)
            except BrokenPipeError:
                gone.set()

        return on_change

    for name in db.queries:
        db.subscribe(name, printer(name))
    running = db.start(checkpoint=checkpoint, trigger=trigger, once=once)
    start = time.monotonic()
    stopped = False
    try:
        if not once:
            click.echo("streaming; Ctrl-C stops", err=True)
        while running.active and not gone.is_set():
            time.sleep(0.1)
        if not gone.is_set():
            running.await_idle()  # raises what a batch has raised
    except KeyboardInterrupt:
        stopped = True
    finally:
        running.stop()
    if gone.is_set():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains
        return
    report = running.report()
    if as_json:
        click.echo(to_json({"report": report_json(report)}, indent=None))
    else:
        click.echo()
        show_report(report, db.plans(), {}, time.monotonic() - start)
    if stopped:
        raise KeyboardInterrupt


# ---------------------------------------------------------------- explain


@main.command()
@FILE
@click.option("--query", metavar="NAME", help="Only this query.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "mermaid", "html"], case_sensitive=False),
    default="text",
    help="text unless given; json is a list of plans.",
)
@click.option("--analyze", is_flag=True, help="Replay the sources, and put measured figures beside the estimates.")
@click.option("-v", "--verbose", is_flag=True, help="Details in full, the generated SQL too.")
@click.option(
    "--spark/--no-spark",
    default=None,
    help="Estimate from the data, or only compile. Spark is used when a stream has a source or is analysed.",
)
@CONF
@click.pass_context
def explain(
    ctx: click.Context,
    file: str,
    query: str | None,
    form: str,
    analyze: bool,
    verbose: bool,
    spark: bool | None,
    conf: tuple[str, ...],
) -> None:
    """Show the plans of the continuous queries in FILE.

    A plan says what is promised, which operator runs and why not another, and what it should cost. Estimates come
    from the data of the streams' sources; without sources, or with --no-spark, the file is only compiled.

    \b
    Examples:
      deadband explain examples/portfolio.sql
      deadband explain examples/portfolio.sql --analyze --query portfolio
      deadband explain examples/portfolio.sql --no-spark --format mermaid
    """
    if analyze and spark is False:
        raise click.UsageError("--analyze replays the sources, which needs Spark.")
    statements = read(file)
    sources = any(
        isinstance(s, ast.AnalyzeStream) or (isinstance(s, ast.CreateStream) and s.using is not None)
        for s in statements
    )
    if analyze or (sources if spark is None else spark):
        precheck(statements)
        with connected(ctx.obj, conf) as db:
            for statement in statements:
                if not isinstance(statement, ast.Explain | ast.Show):
                    db.execute(statement)
            plans = planned(db, analyze)
    else:
        plans = compiled(statements).plans()
    if query is not None:
        names = [p.name for p in plans]
        plans = [p for p in plans if p.name.lower() == query.lower()]
        if not plans:
            raise DeadbandError(f"unknown continuous query {query}", hint=did_you_mean(query, names))
    if not plans:
        click.echo("nothing to explain: there is no CREATE CONTINUOUS QUERY", err=True)
    click.echo(rendered(plans, form, verbose), nl=bool(plans) or form == "json")


def planned(db: Connection, analyze: bool) -> list[Plan]:
    """The plans with estimates from the data and, analysed, with what a replay measured."""
    with status("looking at the data"):
        plans = db.plans(statistics=True)
    if not (analyze and plans):
        return plans
    run = replay(db).run
    report = run.report()
    return [p.with_measured({**report[p.name], "where": run.where(p.name)}) for p in plans]


def rendered(plans: list[Plan], form: str, verbose: bool) -> str:
    """The plans in one format; queries that were folded together are told once, except in JSON."""
    if form == "json":
        return to_json([p.json for p in plans])
    shown = groups_of(plans)
    if form == "mermaid":
        return "\n\n".join(p.mermaid for p in shown)
    if form == "html":
        boxes = "\n".join(p.html for p in shown)
        return f'<!doctype html>\n<meta charset="utf-8">\n<title>Deadband plans</title>\n{boxes}'
    return "\n\n".join(with_changes(p, verbose=verbose).text for p in shown)


# ---------------------------------------------------------------- check


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=SOURCE)
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output: the queries and the errors.")
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Compile FILE and say what each continuous query promises.

    Nothing is read but the file, and no Java is needed. Mistakes go to standard error with the place they point at.
    Each of several files is a program of its own.

    \b
    Examples:
      deadband check examples/portfolio.sql
      deadband check --json examples/*.sql
    """
    found = [checked(file) for file in files]
    errors = [e for _, mistakes in found for e in mistakes]
    if as_json:
        queries = [
            {"file": file, "query": p.name, "shape": p.query.shape.name, "operator": p.tree.op, "promise": p.guarantee}
            for file, (plans, _) in zip(files, found)
            for p in plans
        ]
        click.echo(to_json({"queries": queries, "errors": [error_json(e) for e in errors]}))
    else:
        for file, (plans, mistakes) in zip(files, found):
            tell_checked(f"{file}: " if len(files) > 1 else "", plans, mistakes)
    if errors:
        sys.exit(1)


def checked(file: str) -> tuple[list[Plan], list[DeadbandError]]:
    """The plans of a file, and its mistakes: the first, and those of other queries."""
    program, errors = Program(Catalog()), []
    try:
        for statement in read(file):
            try:
                program.add(statement)
            except DeadbandError as error:
                errors.append(error)
                if not isinstance(statement, ast.CreateQuery | ast.Explain):
                    break  # what follows may depend on it
    except DeadbandError as error:
        errors.append(error)
    return program.plans(), errors


def tell_checked(prefix: str, plans: list[Plan], errors: list[DeadbandError]) -> None:
    """A line for each query, and the mistakes."""
    lines = [(prefix + p.name, p.query.shape.name, p.tree.op, p.guarantee) for p in plans]
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(3)]
    for line in lines:
        click.echo("  ".join([*(text.ljust(w) for text, w in zip(line, widths)), line[3]]))
    for error in errors:
        tell_error(error)
    if not (lines or errors):
        click.echo(f"{prefix}no mistakes, and no CREATE CONTINUOUS QUERY", err=True)


def error_json(error: DeadbandError) -> dict[str, Any]:
    place = (
        {}
        if error.span is None
        else {"file": error.span.source.name, "line": error.span.line, "column": error.span.column}
    )
    return {"message": error.message, **place, "detail": error.detail, "hint": error.hint}


# ---------------------------------------------------------------- shell


@main.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@CONF
@click.pass_context
def shell(ctx: click.Context, file: str | None, conf: tuple[str, ...]) -> None:
    """Run statements one by one, each ended by a semicolon.

    FILE is run first. Spark starts with the first statement. Ctrl-C clears the input or stops what runs, Ctrl-D
    leaves. Statements may also come through a pipe; the exit code then is 1 if one of them failed.

    \b
    Examples:
      deadband shell examples/percent.sql
      deadband> SHOW CONTINUOUS QUERIES;
      deadband> .replay
      deadband> .help
    """
    from deadband.shell import Shell

    sys.exit(Shell(lambda: connected(ctx.obj, conf)).run(read(file) if file else []))
