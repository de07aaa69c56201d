"""What the command line shows: results, plans, reports and changes, as tables on a terminal or as values for JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from deadband.compiler.explain import Plan
    from deadband.compiler.logical import Group, Query
    from deadband.runtime.report import Report

__all__ = ["cell", "groups_of", "records", "show_frame", "show_plans", "show_report", "show_rows", "to_json"]

QUERIES = 20  # of very many queries, the first ones are shown
WIDE = 160  # columns where no terminal sets a limit


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str | None = None) -> None:
    """A table; the note below it says what was left out."""
    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for i, name in enumerate(columns):
        number = bool(rows) and all(_is_number(r[i]) or r[i] is None for r in rows)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(v) for v in row))
    out = _console()
    out.print(table)
    if note:
        out.print(note, style="dim")
    out.print()


def show_frame(frame: pd.DataFrame, limit: int, what: str) -> None:
    """The first rows of a pandas frame."""
    first = frame.head(limit).astype(object)
    rows = first.where(first.notna(), None).itertuples(index=False, name=None)
    left = len(frame) - limit
    show_rows(list(frame.columns), rows, f"… {left:,} more {what}" if left > 0 else f"{len(frame):,} {what}")


def show_plans(plans: Sequence[Plan]) -> None:
    """The promise and the operators of each query; queries that were folded together are shown once."""
    out = _console()
    groups = groups_of(plans)
    for plan in groups[:QUERIES]:
        out.print(_tree(plan))
    if len(groups) > QUERIES:
        out.print(f"… {len(groups) - QUERIES:,} more plans: deadband explain shows them all", style="dim")
    out.print()


def groups_of(plans: Sequence[Plan]) -> list[Plan]:
    """One plan for each group of queries that run together."""
    return list({id(p.choice.operator.group): p for p in reversed(plans)}.values())[::-1]


def show_report(report: Report, plans: Sequence[Plan], seconds: Mapping[str, float], total_seconds: float) -> None:
    """A line per query, the first ones of very many, and the total."""
    queries = {p.name: p.query for p in plans}
    lines = [
        (name, figures, _bound(queries[name]), seconds.get(name)) for name, figures in list(report.items())[:QUERIES]
    ]
    rest = len(report) - len(lines)
    out = _console()
    table = _report_table(report, lines, rest, total_seconds, ())
    spare = tuple(k for k in ("late", "rejected") if not report.total.get(k))
    if (
        Measurement.get(out, out.options.update(width=10 * WIDE), table).maximum > out.width
    ):  # a narrow terminal goes without the columns that say nothing
        table = _report_table(report, lines, rest, total_seconds, (*spare, "initial"))
    out.print(table)
    out.print()


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON values: times as ISO 8601, NaN as null."""
    return json.loads(frame.to_json(orient="records", date_format="iso", date_unit="us", default_handler=str))


def to_json(value: Any, indent: int | None = 2) -> str:
    """Strict JSON: what is not finite becomes null."""
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, default=str)


def cell(value: Any) -> str:
    """A value as SQL shells show it."""
    if value is None or str(value) in ("<NA>", "NaT"):
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if hasattr(value, "asDict"):  # a Row, which is also a tuple
        value = value.asDict()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {cell(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(cell, value)) + "]"
    return str(value)


# ---------------------------------------------------------------- helpers


def _console() -> Console:
    width = None if sys.stdout.isatty() else WIDE
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def _tree(plan: Plan) -> Tree:
    group: Group = plan.choice.operator.group
    more = f"; and {len(group.queries) - 1:,} more like it" if len(group.queries) > 1 else ""
    tree = Tree(f"{plan.name}: {plan.guarantee}{more}")

    def grow(parent: Tree, node: dict[str, Any]) -> None:
        of = node["detail"].get("stream") or node["detail"].get("table") or ""
        branch = parent.add(f"{node['op']} {of}".rstrip() + f" ({node['method']})")
        for child in node["children"]:
            grow(branch, child)

    grow(tree, plan.json["plan"])
    return tree


def _report_table(report: Report, lines: list[tuple], rest: int, total_seconds: float, without: Sequence[str]) -> Table:
    control = ["control"] if "control" in report.total else []
    columns = ["query", "messages", *control, "baseline", "share", "fidelity", "largest error", "bound"]
    columns += [c for c in ("initial", "late", "rejected") if c not in without] + ["seconds"]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name == "query" else "right", no_wrap=name != "query")

    def add(name: str, figures: Mapping[str, Any], error: str, bound: str, took: float | None, **style: Any) -> None:
        sent, fidelity = figures["messages"] + figures.get("control", 0), figures.get("fidelity")
        cells = {
            "query": name,
            "messages": f"{figures['messages']:,}",
            "baseline": f"{figures['baseline']:,}",
            "control": f"{figures['control']:,}" if "control" in figures else "-",
            "share": _percent(sent / figures["baseline"]) if figures["baseline"] else "-",
            "fidelity": "-" if fidelity is None else _percent(fidelity),
            "largest error": error,
            "bound": bound,
            **{k: f"{figures.get(k, 0):,}" for k in ("initial", "late", "rejected")},
            "seconds": "" if took is None else f"{took:.1f}",
        }
        table.add_row(*(cells[c] for c in columns), **style)

    for i, (name, figures, bound, took) in enumerate(lines):
        last = i == len(lines) - 1 and not rest
        error = figures.get("max_error")  # PRECISION gives an interval: nothing is off
        add(name, figures, "-" if error is None else f"{error:.4g}", bound, took, end_section=last)
    if rest:
        table.add_row(f"… {rest:,} more", end_section=True)
    add("total", report.total, "", "", total_seconds, style="bold")
    return table


def _bound(query: Query) -> str:
    bounds = [b for b in query.promise.bounds if b is not None]
    return ", ".join(str(b) for b in bounds) or "exact"


def _percent(share: float) -> str:
    """Rounded down to hundredths, so that only what is whole reads 100%."""
    return f"{math.floor(share * 10_000 + 1e-6) / 100:.6g}%"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
