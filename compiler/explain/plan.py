"""Plan: what EXPLAIN gives back. Rendered when asked, so that 10⁵ plans cost nothing until someone looks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from deadband.compiler.bind.template import shape_with
from deadband.compiler.explain.guarantee import guarantee
from deadband.compiler.explain.html import html_of
from deadband.compiler.explain.mermaid import mermaid_of
from deadband.compiler.explain.text import text_of
from deadband.compiler.logical import Query
from deadband.compiler.lower import Choice
from deadband.compiler.physical import Node

__all__ = ["VERSION", "Plan"]

VERSION = 1


@dataclass(frozen=True)
class Plan:
    """One continuous query, planned."""

    query: Query = field(repr=False)
    choice: Choice = field(repr=False)
    assumed: tuple[str, ...] = ()
    measured: dict[str, Any] = field(default_factory=dict)  # by EXPLAIN ANALYZE
    format: str = "TEXT"
    verbose: bool = False

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def tree(self) -> Node:
        return self.choice.operator

    @property
    def guarantee(self) -> str:
        return guarantee(self.query)

    @property
    def json(self) -> dict[str, Any]:
        """The versioned schema, as a dict."""
        root = _node(self.tree)
        if self.measured:
            root["measured"] = dict(self.measured)
        return {
            "version": VERSION,
            "query": self.name,
            "guarantee": self.guarantee,
            "assumed": list(self.assumed),
            "shape": self._shape(),
            "plan": root,
            "rejected": [
                {"op": r.op, "method": r.method, "reason": r.reason, "estimate": dict(r.estimate)}
                for r in self.choice.rejected
            ],
        }

    def _shape(self) -> dict[str, Any]:
        """The shape; a query folded into another's group is told by the literals it differs in."""
        first = self.choice.operator.group.first
        if first is self.query:
            return {"name": self.query.shape.name, **self.query.shape.detail()}
        shape = shape_with(self.query.template, self.query.literals)
        return {"name": shape.name, **shape.detail(), "like": first.name, "literals": list(self.query.literals)}

    @property
    def text(self) -> str:
        return text_of(self.json, self.verbose)

    @property
    def mermaid(self) -> str:
        return mermaid_of(self.json)

    @property
    def html(self) -> str:
        return html_of(self.json)

    def _repr_html_(self) -> str:
        return self.html

    def with_measured(self, measured: dict[str, Any]) -> Plan:
        return replace(self, measured=measured)

    def __str__(self) -> str:
        """The plan in the format that was asked for."""
        if self.format == "JSON":
            return json.dumps(self.json, indent=2, ensure_ascii=False)
        return {"TEXT": self.text, "MERMAID": self.mermaid, "HTML": self.html}[self.format]


def _node(node: Node) -> dict[str, Any]:
    return {
        "op": node.op,
        "method": node.method,
        "detail": node.detail(),
        "estimate": node.estimate(),
        "children": [_node(c) for c in node.children],
    }
