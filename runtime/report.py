"""Report: what a run counted, per query and in total. Each number was counted where it happened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Report"]

_ORDER = (
    "updates", "initial", "messages", "control", "upstream", "pulls", "reported", "baseline", "violations", "fidelity",
    "max_error", "recall", "late", "rejected",
)  # fmt: skip


class Report(Mapping[str, dict[str, Any]]):
    """A mapping from query to its figures; `.total` sums what can be summed, streams counted once."""

    def __init__(self, queries: dict[str, dict[str, Any]], total: dict[str, Any]):
        self._queries = {name: _ordered(figures) for name, figures in queries.items()}
        self.total = _ordered(total)

    def __getitem__(self, name: str) -> dict[str, Any]:
        by_key = {n.lower(): n for n in self._queries}
        return self._queries[by_key.get(name.lower(), name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def text(self) -> str:
        """A table: a line per query (the first hundred), then the total."""
        columns = [k for k in _ORDER if any(k in f for f in (*self._queries.values(), self.total))]
        lines = [["query", *columns]]
        for name, figures in list(self._queries.items())[:100]:
            lines.append([name, *(_shown(figures.get(k)) for k in columns)])
        if len(self._queries) > 100:
            lines.append([f"… {len(self._queries) - 100} more", *([""] * len(columns))])
        lines.append(["total", *(_shown(self.total.get(k)) for k in columns)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    def to_json(self) -> str:
        return json.dumps({"queries": self._queries, "total": self.total}, indent=2)

    def __repr__(self) -> str:
        return self.text


def _ordered(figures: dict[str, Any]) -> dict[str, Any]:
    return {k: figures[k] for k in _ORDER if k in figures}


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
