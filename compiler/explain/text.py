"""EXPLAIN as text, from the JSON form: one way to say what a plan is."""

from __future__ import annotations

from typing import Any

__all__ = ["rejected_text", "shown", "text_of"]

_SHORT = 100  # characters of a detail that fit on one line


def text_of(plan: dict[str, Any], verbose: bool = False) -> str:
    lines = [plan["query"], f"  promise   {plan['guarantee']}"]
    shape = {k: v for k, v in plan["shape"].items() if k != "name" and v not in ([], None)}
    lines.append(f"  shape     {plan['shape']['name']}: {', '.join(f'{k} {shown(v)}' for k, v in shape.items())}")
    lines.append("  plan")
    lines += _node(plan["plan"], "    ", verbose)
    if plan["rejected"]:
        lines.append("  rejected")
        lines += [f"    {rejected_text(r)}" for r in plan["rejected"]]
    if plan["assumed"]:
        lines.append("  assumed")
        lines += [f"    {a}" for a in plan["assumed"]]
    return "\n".join(lines)


def rejected_text(rejected: dict[str, Any]) -> str:
    method = "" if rejected["method"] == "-" else f" ({rejected['method']})"
    estimate = f"; estimate: {shown(rejected['estimate'])}" if rejected["estimate"] else ""
    return f"{rejected['op']}{method}: {rejected['reason']}{estimate}"


def shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(shown(v) for v in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{k} {shown(v)}" for k, v in value.items()) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _node(node: dict[str, Any], indent: str, verbose: bool) -> list[str]:
    lines = [f"{indent}{node['op']} ({node['method']})"]
    for key, value in node["detail"].items():
        text = shown(value)
        if "\n" in text or len(text) > _SHORT:
            if verbose:
                lines.append(f"{indent}  {key}")
                lines += [f"{indent}    {line}" for line in text.split("\n")]
            elif "\n" in text:
                one_line = " ".join(text.split())
                lines.append(
                    f"{indent}  {key}: {one_line if len(one_line) <= _SHORT else one_line[: _SHORT - 2] + ' …'}"
                )
            else:
                lines.append(f"{indent}  {key}: {text}")
        else:
            lines.append(f"{indent}  {key}: {text}")
    lines += _figures(node, indent)
    for child in node["children"]:
        lines += _node(child, indent + "  ", verbose)
    return lines


def _figures(node: dict[str, Any], indent: str) -> list[str]:
    """Estimated figures, with the measured ones beside them when there are any."""
    estimate, measured = node["estimate"], node.get("measured", {})
    if not measured:
        return [f"{indent}  estimate: {shown(estimate)}"] if estimate else []
    keys = [*estimate, *(k for k in measured if k not in estimate)]
    wide = max(12, *map(len, keys))
    lines = [f"{indent}  {'':<{wide}} {'estimated':>18} {'measured':>18}"]
    for key in keys:
        lines.append(f"{indent}  {key:<{wide}} {shown(estimate.get(key, '-')):>18} {shown(measured.get(key, '-')):>18}")
    return lines
