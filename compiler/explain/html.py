"""EXPLAIN as HTML for notebooks: nested boxes, no scripts."""

from __future__ import annotations

from html import escape
from typing import Any

from deadband.compiler.explain.text import rejected_text, shown

__all__ = ["html_of"]

_STYLE = "border:1px solid #bbb;border-radius:4px;padding:4px 8px;margin:4px 0 4px 12px;font-family:sans-serif"


def html_of(plan: dict[str, Any]) -> str:
    rejected = "".join(f"<li>{escape(rejected_text(r))}</li>" for r in plan["rejected"])
    assumed = "".join(f"<li>{escape(a)}</li>" for a in plan["assumed"])
    return (
        f'<div style="{_STYLE}"><b>{escape(plan["query"])}</b>: {escape(plan["guarantee"])}'
        f"<br/><i>{escape(plan['shape']['name'])}</i>{_node(plan['plan'])}"
        + (f"<details><summary>rejected</summary><ul>{rejected}</ul></details>" if rejected else "")
        + (f"<details><summary>assumed</summary><ul>{assumed}</ul></details>" if assumed else "")
        + "</div>"
    )


def _node(node: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(k)}</td><td><pre style='margin:0'>{escape(shown(v))}</pre></td></tr>"
        for k, v in node["detail"].items()
    )
    for title in ("estimate", "measured"):
        if node.get(title):
            rows += f"<tr><td><b>{title}</b></td><td>{escape(shown(node[title]))}</td></tr>"
    children = "".join(_node(c) for c in node["children"])
    head = f"<b>{escape(node['op'])}</b> ({escape(node['method'])})"
    return f'<div style="{_STYLE}">{head}<table>{rows}</table>{children}</div>'
