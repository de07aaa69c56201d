"""How often a value that drifts leaves its bound.

A walk with second moment v per tick, restarted at each report, leaves ±C about v / (C + 0.583 √v)² times a tick (the
0.583 √v is the overshoot of discrete steps), and never more often than it changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["reports_per_tick"]

OVERSHOOT = 0.583


def reports_per_tick(moment: NDArray, bound: NDArray, rate: NDArray) -> NDArray:
    """Expected reports a tick, from the second moment of the change per tick, the bound and the rate of change."""
    moment = np.maximum(moment, 0.0)
    reach = np.maximum(bound, 0.0) + OVERSHOOT * np.sqrt(moment)
    with np.errstate(divide="ignore", invalid="ignore"):
        reports = np.where(moment > 0, moment / reach**2, 0.0)
    return np.minimum(reports, rate)
