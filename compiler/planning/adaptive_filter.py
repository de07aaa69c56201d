"""How wide each item's filter should be, so that all standing answers keep their bound and messages are fewest.

Law. n items with widths W >= 0, m targets: load @ W <= budget, where load[t, i] = |weight of item i in target t|. An
item sends rate_i(W_i) messages a tick, a falling curve that was counted (Curves) or modelled (random walks). The best
static widths minimise Σ cost_i · rate_i(W_i). On the lower convex hull of counted curves this is a linear program; for
many items its dual is solved: price_i = Σ_t load[t, i] · λ_t, each item answers with the width at which its curve's
slope equals its price, and each λ_t moves until its target is just used up.

Every function here gives widths that hold in floating point in any order of summation, widths that cannot grow
without taking room from another item, 0 where a budget is 0, and infinity for items in no target.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye_array, hstack, kron

from deadband.compiler.planning.cost_curves import Curves, expected, hull
from deadband.compiler.planning.emit_on_drift import OVERSHOOT

__all__ = ["allocate", "random_walk", "settle", "uniform"]

EXACT_UP_TO = 5_000  # entries of load; above, the dual is many times faster and within about 0.1 %
TILT = 0.01  # least fall of log slope from one segment to the next in the dual: no jumps over several at once
SOFT = 0.05  # log price over which a segment is taken
DUAL_ROUNDS = 300
LOG_PRICE = (-60.0, 90.0)
FILL_ROUNDS = 40
CANDIDATES = 12  # sets of pushed items that settle compares
EPS = 2.0**-52


def uniform(load: csr_matrix, budget: NDArray) -> NDArray:
    """Every target gives its items the same width; an item takes the least that its targets offer."""
    load, budget = _checked(load, budget)
    total = load @ np.ones(load.shape[1])
    row = _row_of(load)
    return _least(load, _quotient(_safe(load, budget)[row], total[row]))


def allocate(curves: Curves, cost: NDArray, load: csr_matrix, budget: NDArray, method: str = "auto") -> NDArray:
    """Widths that minimise Σ cost · rate within the budgets: "exact" by LP, "dual" by prices, "auto" by size."""
    assert method in ("auto", "exact", "dual")
    load, budget = _checked(load, budget)
    problem = _Problem(load, budget)
    free = problem.free
    if len(free) == 0:
        return problem.widths(np.zeros(0))
    low = _within(hull(_finer(curves.of(free))), problem.unit)
    cost = np.asarray(cost, float)[free]
    if method == "exact" or (method == "auto" and problem.load.nnz <= EXACT_UP_TO):
        share = _by_program(low, cost, problem.load)
    else:
        share = _by_prices(_slope_response(low, cost), problem.load)
    gain = cost * -np.diff(np.column_stack([low.update_rate, low.rate]), axis=1).min(axis=1, initial=0.0)
    return problem.widths(_filled(_repaired(share, problem.load), problem.load, gain > 0))


def random_walk(variance: NDArray, cost: NDArray, load: csr_matrix, budget: NDArray) -> NDArray:
    """The best static widths where rate = v / (W/2 + 0.583 √v)²; equal variances where nothing is known."""
    load, budget = _checked(load, budget)
    problem = _Problem(load, budget)
    free = problem.free
    if len(free) == 0:
        return problem.widths(np.zeros(0))
    with np.errstate(over="ignore"):
        moment = np.minimum(np.maximum(np.asarray(variance, float)[free], 0.0) / problem.unit**2, 1e200)
    weight = np.asarray(cost, float)[free] * moment
    lag = OVERSHOOT * np.sqrt(moment)

    def response(price: NDArray) -> NDArray:
        with np.errstate(divide="ignore"):
            return np.clip(2.0 * (np.cbrt(weight / price) - lag), 1e-9 * (weight > 0), 1.0)

    share = _by_prices(response, problem.load)
    return problem.widths(_filled(_repaired(share, problem.load), problem.load, weight > 0))


def settle(
    current: NDArray,
    wanted: NDArray,
    curves: Curves,
    cost: NDArray,
    load: csr_matrix,
    budget: NDArray,
    control_cost: float = 1.0,
    horizon_ticks: float = 1000.0,
) -> NDArray:
    """The changes towards `wanted` that pay their control messages within the horizon; `current` if none do.

    Items are ranked by what their change is worth: a growth the messages it saves, a shrink the growths it makes room
    for. Of the sets of the first 100 %, 70 %, 50 %, … items, growths cut to what fits, the one with the largest net
    saving is pushed.
    """
    load, budget = _checked(load, budget)
    cost = np.asarray(cost, float)
    current, wanted = np.asarray(current, float), np.asarray(wanted, float)
    low = hull(_finer(curves))
    safe = _safe(load, budget)
    bounded = np.bincount(load.indices, minlength=load.shape[1]) > 0
    base = np.where(bounded, current, wanted)
    finite = np.where(bounded, base, 0.0)
    used = load @ finite
    if (used > budget).any():  # budgets became tighter: nothing to weigh against
        return wanted
    before = expected(low, base)
    change = np.subtract(wanted, base, out=np.zeros(len(base)), where=bounded)
    change[np.abs(change) <= 1e-3 * base] = 0.0
    worth = _worth(before - expected(low, wanted), change, cost, load)
    order = np.argsort(-worth, kind="stable")
    order = order[worth[order] > 0]
    best, best_net = base, 0.0
    size = float(len(order))
    for _ in range(CANDIDATES):
        if size < 1:
            break
        pushed = np.zeros(len(current), bool)
        pushed[order[: int(size)]] = True
        size *= 0.7
        for _ in range(2):  # once more without those that do not pay their own message
            widths = _moved(finite, np.where(pushed, change, 0.0), pushed, load, safe)
            saved = horizon_ticks * cost * (before - expected(low, np.where(bounded, widths, base)))
            moved = widths != finite
            net = float(saved.sum() - control_cost * moved.sum())
            if net > best_net:
                best, best_net = np.where(bounded, widths, base), net
            pushed = moved & ~((widths > finite) & (saved < control_cost))
    return best


# ---- the problem without units: budgets are 1, widths are shares of the widest an item may ever be


class _Problem:
    """Items that share targets, scaled: share = width / unit in [0, 1], load @ share <= 1."""

    def __init__(self, load: csr_matrix, budget: NDArray) -> None:
        safe = _safe(load, budget)
        row = _row_of(load)
        cap = _least(load, _quotient(safe[row], load.data))
        alone = np.diff(load.indptr) == 1
        shared = np.zeros(load.shape[1], bool)
        shared[load.indices[~alone[row]]] = True
        self.cap, self.shared = cap, shared
        self.free = np.flatnonzero(shared & (cap > 0) & np.isfinite(cap))
        self.unit = cap[self.free]
        position = np.full(load.shape[1], -1)
        position[self.free] = np.arange(len(self.free))
        keep = position[load.indices] >= 0
        entry = load.data[keep] / safe[row[keep]] * cap[load.indices[keep]]
        rows, row_kept = np.unique(row[keep], return_inverse=True)
        self.load = csr_matrix((entry, (row_kept, position[load.indices[keep]])), shape=(len(rows), len(self.free)))
        self.original, self.safe = load, safe

    def widths(self, share: NDArray) -> NDArray:
        """Back in units, with the last roundings taken off."""
        widths = self.cap.copy()
        widths[self.free] = np.clip(share, 0.0, 1.0) * self.unit
        finite = np.where(np.isfinite(widths), widths, 0.0)
        over = np.divide(self.original @ finite, self.safe, out=np.zeros(len(self.safe)), where=self.safe > 0)
        scale = np.ones(len(widths))
        np.maximum.at(scale, self.original.indices, over[_row_of(self.original)])
        return np.where(self.shared, widths / scale, widths)


def _checked(load: csr_matrix, budget: NDArray) -> tuple[csr_matrix, NDArray]:
    """load and budget as floats; targets with an infinite budget lose their items."""
    load, budget = csr_matrix(load, dtype=float), np.asarray(budget, float)
    assert load.shape[0] == len(budget) and (load.data >= 0).all() and (budget >= 0).all()
    if not load.has_canonical_format or (load.data == 0).any() or np.isinf(budget).any():
        load = load.copy()
        load.sum_duplicates()
        load.data[np.isinf(budget)[_row_of(load)]] = 0.0
        load.eliminate_zeros()
        budget = np.where(np.isinf(budget), 0.0, budget)
    return load, budget


def _row_of(load: csr_matrix) -> NDArray:
    return np.repeat(np.arange(load.shape[0]), np.diff(load.indptr))


def _safe(load: csr_matrix, budget: NDArray) -> NDArray:
    """Budgets less what summing in any order may round up."""
    size = np.diff(load.indptr)
    return np.where(size > 1, budget * (1.0 - (2 * size + 6) * EPS), budget)


def _quotient(amount: NDArray, weight: NDArray) -> NDArray:
    """amount / weight, rounded so that weight times it does not exceed the amount."""
    with np.errstate(over="ignore"):
        found = np.minimum(amount / weight, np.finfo(float).max)
        return np.where(found * weight > amount, np.nextafter(found, 0.0), found)


def _least(load: csr_matrix, offered: NDArray) -> NDArray:
    """Per item the least of what its targets offer; infinity: no target."""
    least = np.full(load.shape[1], np.inf)
    np.minimum.at(least, load.indices, offered)
    return least


def _finer(curves: Curves) -> Curves:
    """Two more points between any two, on the power law through them."""
    G = curves.width.shape[1]
    at = np.arange(3 * G - 2) / 3
    left, right = np.floor(at).astype(int), np.ceil(at).astype(int)
    width = curves.width[:, left] ** (1 - at % 1) * curves.width[:, right] ** (at % 1)
    columns = [expected(curves, width[:, k]) for k in range(len(at))]
    return Curves(width, np.column_stack(columns), curves.update_rate)


def _within(low: Curves, unit: NDArray) -> Curves:
    """A hull on shares (0, 1]: cut at the widest the item may be, or carried on to there by its tail."""
    beyond = 4
    last = low.width[:, -1]
    with np.errstate(over="ignore"):
        reach = np.minimum(np.maximum(unit / last, 1.0), 1e200)
    more = last[:, None] * reach[:, None] ** (np.arange(1, beyond + 1) / beyond)
    width = np.column_stack([low.width, more]) / unit[:, None]
    # points that are cut off, or too small to matter, become tiny steps: widths stay ascending
    K = width.shape[1]
    width = np.maximum(np.minimum(width, 1.0 - 1e-7 * np.arange(K - 1, -1, -1)), 1e-13 * np.arange(1, K + 1))
    columns = [expected(low, width[:, k] * unit) for k in range(K)]
    return hull(Curves(width, np.column_stack(columns), low.update_rate))


def _by_program(low: Curves, cost: NDArray, load: csr_matrix) -> NDArray:
    """The LP over the segments of the hulls; steeper segments come first by themselves."""
    n, G = low.width.shape
    length = np.diff(low.width, axis=1, prepend=0.0)
    slope = np.diff(np.column_stack([low.update_rate, low.rate]), axis=1) * cost[:, None]
    scale = np.abs(slope).max(initial=0.0)
    if scale == 0:
        return np.zeros(n)
    steps = kron(eye_array(n), np.ones((1, G)), format="csr")
    total = csr_matrix(hstack([eye_array(n), -(steps @ _diagonal(length))]))
    used = csr_matrix((load.data, load.indices, load.indptr), shape=(load.shape[0], n + n * G))
    found = linprog(
        np.concatenate([np.zeros(n), (slope / scale).ravel()]),
        A_ub=used,
        b_ub=np.ones(load.shape[0]),
        A_eq=total,
        b_eq=np.zeros(n),
        bounds=np.column_stack([np.zeros(n + n * G), np.ones(n + n * G)]),
        method="highs",
    )
    if found.x is None:  # numerical trouble in the solver: prices always give something
        return _by_prices(_slope_response(low, cost), load)
    return np.clip(found.x[:n], 0.0, 1.0)


def _diagonal(values: NDArray) -> csr_matrix:
    size = values.size
    return csr_matrix((values.ravel(), np.arange(size), np.arange(size + 1)), shape=(size, size))


def _slope_response(low: Curves, cost: NDArray) -> Callable[[NDArray], NDArray]:
    """Shares as a function of prices: a segment is taken as the price falls through its slope, smoothed by SOFT."""
    n, K = low.width.shape
    fall = -np.diff(np.column_stack([low.update_rate, low.rate]), axis=1) / np.diff(low.width, axis=1, prepend=0.0)
    with np.errstate(divide="ignore"):
        slope = np.maximum(np.log(np.maximum(fall, 0.0) * cost[:, None]), LOG_PRICE[0] - 10.0)
    slope = np.minimum.accumulate(slope - TILT * np.arange(K), axis=1)
    gap = -np.diff(slope, axis=1, prepend=np.inf, append=-np.inf)
    soft = np.minimum(SOFT, 0.499 * np.minimum(gap[:, 1:], gap[:, :-1]))
    knot = np.stack([slope + soft, slope - soft], axis=2).reshape(n, 2 * K)
    share = np.stack([np.column_stack([np.zeros(n), low.width[:, :-1]]), low.width], axis=2).reshape(n, 2 * K)
    knot = np.column_stack([knot, knot[:, -1] - 1.0])
    share = np.column_stack([share, share[:, -1]])
    item, place = np.arange(n), np.ones(n, int)

    def response(price: NDArray) -> NDArray:
        wanted = np.log(np.maximum(price, 1e-300))
        # prices move little from one round to the next: only those that left their place look for it anew
        lost = np.flatnonzero((knot[item, place - 1] < wanted) | (knot[item, place] >= wanted))
        first, last = np.ones(len(lost), int), np.full(len(lost), 2 * K)
        for _ in range(int(2 * K).bit_length()):
            middle = (first + last) // 2
            further = knot[lost, middle] >= wanted[lost]
            first, last = np.where(further, np.minimum(middle + 1, last), first), np.where(further, last, middle)
        place[lost] = last
        right = place.copy()
        above, below = knot[item, right - 1], knot[item, right]
        part = np.clip((above - wanted) / (above - below), 0.0, 1.0)
        wide, narrow = share[item, right], share[item, right - 1]
        return narrow + part * (wide - narrow)

    return response


def _by_prices(response: Callable[[NDArray], NDArray], load: csr_matrix) -> NDArray:
    """Multiplicative updates of the targets' prices, λ *= used^rate, each rate as bold as its signs allow."""
    across = csr_matrix(load.T)
    items, targets = np.ones(load.shape[1]), np.ones(load.shape[0])
    width = _least(load, 1.0 / np.maximum(load @ items, 1.0)[_row_of(load)])
    low, high = np.full(load.shape[1], -80.0), np.full(load.shape[1], 80.0)
    for _ in range(24):  # the price at which each item would take its uniform share
        middle = (low + high) / 2
        wide = response(np.exp(middle)) > width
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    own = np.exp((low + high) / 2)
    own[response(own) <= 0] = 0.0
    members = np.maximum(across @ targets, 1e-300)
    weights = load.copy()
    weights.data = load.data * width[load.indices]
    log_price = np.log(np.maximum(weights @ (own / members) / np.maximum(weights @ items, 1e-300), 1e-30))
    rate, before = np.full(len(log_price), 2.0), np.zeros(len(log_price))
    average = width
    for step in range(DUAL_ROUNDS):
        share = response(across @ np.exp(log_price))
        move = np.log(np.maximum(load @ share, 1e-3))
        rate = np.clip(np.where(move * before >= 0, rate * 1.2, rate * 0.5), 1e-3, 8.0)
        before = move
        log_price = np.clip(log_price + np.clip(rate * move, -2.0, 2.0), LOG_PRICE[0], LOG_PRICE[1])
        average = share if step < DUAL_ROUNDS // 2 else average + (share - average) * 0.1
    return average


# ---- from nearly feasible to feasible and full


def _repaired(share: NDArray, load: csr_matrix) -> NDArray:
    """Each item gives way to the target that is exceeded most."""
    scale = np.ones(len(share))
    np.maximum.at(scale, load.indices, (load @ share)[_row_of(load)])
    return share / scale


def _filled(share: NDArray, load: csr_matrix, moving: NDArray) -> NDArray:
    """What is left over goes to items that move, in proportion to their widths; then to those that never do."""
    ones = np.ones(load.shape[0])
    share = _grown(share, np.where(moving, np.maximum(share, 1e-9), 0.0), load, ones)
    return _grown(share, np.maximum(share, np.where(moving, 0.0, 1e-3)), load, ones)


def _grown(width: NDArray, pace: NDArray, load: csr_matrix, budget: NDArray) -> NDArray:
    """Widths grow at their paces until a target of theirs is used up; the rest, if rounds run out, one by one."""
    row, item = _row_of(load), load.indices
    width = width.copy()
    least = 1e-12 * budget
    for _ in range(FILL_ROUNDS):
        left = np.maximum(budget - load @ width, 0.0)
        open_target = left > least
        can = pace > 0
        can[item[~open_target[row]]] = False
        if not can.any():
            return width
        demand = load @ np.where(can, pace, 0.0)
        ratio = np.divide(left, demand, out=np.full(len(left), np.inf), where=demand > 0)
        offered = np.full(len(width), np.inf)
        np.minimum.at(offered, item, ratio[row])
        can &= np.isfinite(offered)
        width[can] += pace[can] * offered[can] * (1.0 - 4 * EPS)
    left = np.maximum(budget - load @ width, 0.0)
    columns = csr_matrix(load.T)
    for i in np.flatnonzero(can):
        entries = slice(columns.indptr[i], columns.indptr[i + 1])
        targets, weight = columns.indices[entries], columns.data[entries]
        growth = max(float((left[targets] / weight).min()) * (1.0 - 4 * EPS), 0.0)
        width[i] += growth
        left[targets] = np.maximum(left[targets] - weight * growth * (1.0 + 4 * EPS), 0.0)
    return width


# ---- which changes to push


def _worth(saved: NDArray, change: NDArray, cost: NDArray, load: csr_matrix) -> NDArray:
    """Messages a tick that each change is worth; a shrink, the room it makes at its targets' going rate."""
    gain = np.where(change > 0, np.maximum(saved * cost, 0.0), 0.0)
    room = load @ np.maximum(change, 0.0)
    weighted = load.copy()
    weighted.data = load.data * np.maximum(change, 0.0)[load.indices]
    share_gain = weighted @ np.divide(gain, np.maximum(change, 1e-300), out=np.zeros(len(gain)), where=change > 0)
    rate = np.divide(share_gain, room, out=np.zeros(len(room)), where=room > 0)
    freed = np.zeros(len(change))
    np.maximum.at(freed, load.indices, (load.data * rate[_row_of(load)]))
    return np.where(change > 0, gain, np.where(change < 0, freed * -change, 0.0))


def _moved(width: NDArray, change: NDArray, pushed: NDArray, load: csr_matrix, budget: NDArray) -> NDArray:
    """Shrinks in full, growths cut to what fits, and what is left over to the items pushed anyway."""
    shrunk = width + np.minimum(change, 0.0)
    growth = np.maximum(change, 0.0)
    left = np.maximum(budget - load @ shrunk, 0.0)
    demand = load @ growth
    fits = np.divide(left, demand, out=np.ones(len(left)), where=demand > left)
    share = np.ones(len(width))
    np.minimum.at(share, load.indices, fits[_row_of(load)])
    grown = shrunk + growth * share * (1.0 - 4 * EPS)
    return _grown(grown, np.where(pushed & (grown > 0), grown, 0.0), load, budget)
