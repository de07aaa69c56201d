"""Figures as a table, printed row by row as they are measured."""

from __future__ import annotations

from typing import Any

__all__ = ["Table"]


class Table:
    """Rows are dicts with the same keys; numbers are printed short."""

    def __init__(self, title: str):
        self.rows: list[dict[str, Any]] = []
        print(f"\n{title}")

    def add(self, **row: Any) -> None:
        if not self.rows:
            print("  ".join(f"{k:>14}" for k in row))
        self.rows.append(row)
        print("  ".join(f"{_shown(v):>14}" for v in row.values()), flush=True)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
