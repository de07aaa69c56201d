"""What widths cost: messages a tick at a grid of widths, counted per item, and how to read between and beyond them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BLENDS", "GRID", "QUARTERS", "Curves", "History", "blend_costs", "blended", "expected", "grid", "hull", "smoothed",
]  # fmt: skip

GRID = 12  # shadow widths per item
QUARTERS = 4  # parts of a history
GRID_RATIO = 1.6  # from one shadow width to the next
TAIL = (0.5, 3.0)  # exponents b that a tail W^-b may have
BLENDS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # shares of planned widths in what is pushed, the rest uniform


@dataclass(frozen=True)
class Curves:
    """Messages a tick that each item would send at a grid of widths, and at width 0."""

    width: NDArray  # float64[n, G], > 0, ascending
    rate: NDArray  # float64[n, G], messages a tick
    update_rate: NDArray  # float64[n], changes a tick, what a filter of width 0 sends

    def __post_init__(self) -> None:
        assert self.width.shape == self.rate.shape and self.width.ndim == 2
        assert self.update_rate.shape == self.width.shape[:1]

    def of(self, items: NDArray) -> Curves:
        return Curves(self.width[items], self.rate[items], self.update_rate[items])


@dataclass(frozen=True)
class History(Curves):
    """Curves of an analysed stretch, and of its quarters: how far a plan from one of them holds in the next."""

    quarters: NDArray  # float64[n, QUARTERS, G], messages a tick in each quarter
    ticks: int

    def of(self, items: NDArray) -> History:
        return History(self.width[items], self.rate[items], self.update_rate[items], self.quarters[items], self.ticks)

    def until(self, quarter: int) -> Curves:
        """What was known after some quarters."""
        return Curves(self.width, self.quarters[:, :quarter].mean(axis=1), self.update_rate)

    def quarter(self, number: int) -> Curves:
        return Curves(self.width, self.quarters[:, number], self.update_rate)


def grid(centre: NDArray, points: int = GRID, ratio: float = GRID_RATIO) -> NDArray:
    """Shadow widths [n, points] around one width per item; around 1 where that is 0 or infinite."""
    centre = np.asarray(centre, float)
    centre = np.where((centre > 0) & np.isfinite(centre), centre, 1.0)
    return centre[:, None] * ratio ** (np.arange(points) - (points - 1) / 2)


def hull(curves: Curves) -> Curves:
    """The largest convex, falling curve through (0, update_rate) that nowhere exceeds the counted one."""
    width = np.column_stack([np.zeros(len(curves.width)), curves.width])
    rate = np.column_stack([curves.update_rate, curves.rate])
    G = curves.width.shape[1]
    slope = np.full((len(width), G), -np.inf)
    # slope of the greatest convex minorant in segment k: max over starts a <= k of min over ends b > k of the chord
    for a in range(G):
        chord = (rate[:, a + 1 :] - rate[:, a, None]) / (width[:, a + 1 :] - width[:, a, None])
        np.maximum(slope[:, a:], np.minimum.accumulate(chord[:, ::-1], axis=1)[:, ::-1], out=slope[:, a:])
    slope = np.minimum(np.maximum.accumulate(slope, axis=1), 0.0)
    low = curves.update_rate[:, None] + np.cumsum(slope * np.diff(width, axis=1), axis=1)
    return Curves(curves.width, np.maximum(low, 0.0), curves.update_rate)


def expected(curves: Curves, widths: NDArray) -> NDArray:
    """Messages a tick per item at its width: power laws between the counted points and beyond the last.

    A straight line would overrate widths between the points by up to 14 %, and make any move to a point look like a
    gain; from width 0 to the first point it is all there is.
    """
    n, G = curves.width.shape
    if n == 0:
        return np.zeros(0)
    width = np.column_stack([np.zeros(n), curves.width])
    rate = np.column_stack([curves.update_rate, curves.rate])
    at = np.minimum((curves.width <= widths[:, None]).sum(axis=1), G - 1)
    item = np.arange(n)
    left, right = width[item, at], width[item, at + 1]
    first, last = rate[item, at], rate[item, at + 1]
    share = np.clip((np.minimum(widths, right) - left) / (right - left), 0.0, 1.0)
    inside = first + share * (last - first)
    law = (left > 0) & (first > 0) & (last > 0)
    bend = np.log(np.clip(widths[law], left[law], right[law]) / left[law]) / np.log(right[law] / left[law])
    inside[law] = first[law] * (last[law] / first[law]) ** bend
    with np.errstate(divide="ignore", over="ignore"):
        beyond = np.maximum(widths / curves.width[:, -1], 1.0) ** -_tail(curves)
    return inside * beyond


def smoothed(curves: Curves, ticks: float, strength: float = 10.0) -> Curves:
    """Counted rates drawn towards each item's own power law, as if that had been seen `strength` times before.

    Wide filters send little, so their counts are noise; the law is fitted to all widths, weighted by their counts.
    """
    count = curves.rate * ticks
    weight = np.minimum(count, 200.0) * (curves.rate < 0.5)
    weight = np.where(weight.sum(axis=1, keepdims=True) > 0, weight, count)
    total = weight.sum(axis=1, keepdims=True) + 1e-12
    x, y = np.log(curves.width), np.log(np.maximum(curves.rate, 1e-12))
    x = x - (weight * x).sum(axis=1, keepdims=True) / total
    level = (weight * y).sum(axis=1, keepdims=True) / total
    square = (weight * x * x).sum(axis=1, keepdims=True)
    product = (weight * x * (y - level)).sum(axis=1, keepdims=True)
    fall = np.clip(-(product - 5.0 * 1.5) / (square + 5.0), 0.2, 3.0)  # 1.5 where there is next to nothing to fit
    law = np.minimum(np.exp(level - fall * x), curves.update_rate[:, None])
    law = np.maximum(np.where(count.sum(axis=1, keepdims=True) > 0, law, 0.0), 1e-3 / ticks)
    return Curves(curves.width, (count + strength) / (ticks + strength / law), curves.update_rate)


def blended(planned: NDArray, fallback: NDArray, share: float) -> NDArray:
    """Part of the way from one feasible set of widths to another; feasible, since the budgets are linear."""
    finite = np.isfinite(planned) & np.isfinite(fallback)
    return np.where(
        finite, share * np.where(finite, planned, 0.0) + (1 - share) * np.where(finite, fallback, 0.0), planned
    )


def blend_costs(planned: NDArray, fallback: NDArray, curves: Curves, cost: NDArray) -> NDArray:
    """What each of BLENDS would have cost a tick, on curves counted after the plan was made: an honest test of it."""
    return np.array([float((cost * expected(curves, blended(planned, fallback, share))).sum()) for share in BLENDS])


def _tail(curves: Curves) -> NDArray:
    """The exponent b of rate ~ W^-b over the last points."""
    G = curves.width.shape[1]
    first = max(G - 4, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = np.log(curves.rate[:, first] / curves.rate[:, -1])
        b = fall / np.log(curves.width[:, -1] / curves.width[:, first])
    return np.clip(np.where(np.isnan(b), TAIL[1], b), *TAIL)
