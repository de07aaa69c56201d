"""What is known of the data when a plan is made, and what it lets us expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Statistics"]


@dataclass(frozen=True)
class Statistics:
    """Counted from a stream's bounded source; `reported` is expected by the law of planning/emit_on_drift.py."""

    ticks: int
    updates: int
    items: int
    groups: int
    edges: int
    baseline: float
    reported: float
    paired: bool = True  # whether it is known how items move together

    def estimate(self) -> dict[str, Any]:
        return {
            "ticks": self.ticks,
            "updates": self.updates,
            "items": self.items,
            "groups": self.groups,
            "edges": self.edges,
            "baseline": round(self.baseline),
            "reported": round(self.reported),
        }
