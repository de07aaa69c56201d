"""EXPLAIN as a Mermaid flow chart: rows flow from the leaves to the query."""

from __future__ import annotations

from typing import Any

from deadband.compiler.explain.text import shown

__all__ = ["mermaid_of"]

_SHOWN = ("stream", "table", "features", "form")


def mermaid_of(plan: dict[str, Any]) -> str:
    lines = ["flowchart BT", f'  q["{_safe(plan["query"])}<br/>{_safe(plan["guarantee"])}"]']
    count = 0

    def visit(node: dict[str, Any], parent: str) -> None:
        nonlocal count
        name, count = f"n{count}", count + 1
        label = [f"{node['op']} ({node['method']})"]
        label += [f"{k}: {shown(node['detail'][k])}" for k in _SHOWN if k in node["detail"]]
        if node["estimate"]:
            label.append(f"estimate: {shown(node['estimate'])}")
        if node.get("measured"):
            label.append(f"measured: {shown(node['measured'])}")
        lines.append(f'  {name}["{"<br/>".join(_safe(x) for x in label)}"] --> {parent}')
        for child in node["children"]:
            visit(child, name)

    visit(plan["plan"], "q")
    return "\n".join(lines)


def _safe(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
