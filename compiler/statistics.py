"""What is known of the data when a plan is made, and what it lets us expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["FilterStatistics", "Known", "Statistics"]


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


@dataclass(frozen=True)
class FilterStatistics:
    """What the filters of a PRECISION group are expected to do, planned from a stream's own source or its history."""

    ticks: int
    updates: int
    items: int
    groups: int
    edges: int
    components: int
    fixed: int  # items whose width is fixed
    composites: int  # items put together at their site
    widths: tuple[tuple[str, float, float], ...]  # item, width, expected messages a tick; the 10 busiest
    budgets: tuple[tuple[str, float, float], ...]  # group, width used, width allowed; the 10 tightest
    messages: float
    control: float
    uniform: float  # messages with equal widths
    baseline: float  # messages without a filter
    analysed: bool

    def estimate(self) -> dict[str, Any]:
        return {
            "ticks": self.ticks,
            "updates": self.updates,
            "items": self.items,
            "groups": self.groups,
            "messages": round(self.messages),
            "control": round(self.control),
            "uniform": round(self.uniform),
            "baseline": round(self.baseline),
            "saving_vs_uniform": self._saving(self.uniform),
            "saving_vs_none": self._saving(self.baseline),
        }

    def _saving(self, other: float) -> float:
        """The share of the other's messages that is not sent."""
        return round(1 - (self.messages + self.control) / other, 4) if other else 0.0


Known: TypeAlias = Statistics | FilterStatistics
