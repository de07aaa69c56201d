"""The published adjustment of filter widths (Olston, Jiang & Widom, SIGMOD 2003), called once a period.

Law. Before and after, Σ |weight| · width <= budget for every target, however it is summed. Widths that are not fixed
shrink by 5 %; both ends do so by themselves. What that leaves goes to items in descending order of deviation
D_i = max(B_i - Σ_j |w_ij| T_j, 0), ties in random order, each as much as all its targets still have; each growth is a
control message. B_i = cost_i · sent_i / (period · W_i) is the burden, T_j the burden targets:
    T_j = mean over the items i of target j of (B_i - Σ_{k≠j} |w_ik| T_k) / |w_ij|.
Cost: a few passes over the weights and one sort of the items with a positive deviation.

The burden targets solve M T = b with M_jk = Σ_i |w_ik| / |w_ij| and b_j = Σ_i B_i / |w_ij|. With equal weights inside
each target M is a scaled Gram matrix and Gauss-Seidel converges whatever the overlap. Else it may diverge: when its
residual stops falling, conjugate gradients on the least squares of M T = b take over from the best T so far.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["SHRINK", "adjust", "burden_targets"]

SHRINK = 0.05
TOLERANCE = 1e-4  # of the residual of M T = b
SWEEPS = 50
DUST = 1e-9  # growth below this share of a budget is rounding


@njit(cache=True, nogil=True)
def adjust(
    item_start, item_target, item_weight, target_start, target_item, target_weight,
    budget, width, sent, cost, period, fixed, targets, seed,
):  # fmt: skip
    """Shrinks and regrows width in place; targets is the last period's T and becomes this one's. Returns what grew."""
    n, m = len(width), len(budget)
    grew = np.zeros(n, np.uint8)
    for i in range(n):
        if fixed[i] == 0:
            width[i] *= 1.0 - SHRINK
    left, least = np.empty(m), np.empty(m)
    for t in range(m):
        used, size = 0.0, target_start[t + 1] - target_start[t]
        for e in range(target_start[t], target_start[t + 1]):
            used += target_weight[e] * width[target_item[e]]
        left[t] = max(budget[t] * (1.0 - 4 * (size + 4) * 2.0**-52) - used, 0.0)
        least[t] = DUST * budget[t]
    burden = np.zeros(n)
    for i in range(n):
        if sent[i] > 0 and fixed[i] == 0 and np.isfinite(width[i]):
            # a width of 0 has no burden of its own: take the one at the width it could grow to, if it can grow
            reach = width[i] if width[i] > 0 else _room(i, item_start, item_target, item_weight, left, least)
            if reach > 0:
                burden[i] = cost[i] * sent[i] / (period * reach)
    burden_targets(
        item_start, item_target, item_weight, target_start, target_item, target_weight, fixed, burden, targets
    )
    order = _shuffled(n, seed)
    deviation = np.empty(n)
    positive = 0
    for k in range(n):
        i = order[k]
        aim = 0.0
        for e in range(item_start[i], item_start[i + 1]):
            aim += item_weight[e] * targets[item_target[e]]
        deviation[k] = max(burden[i] - aim, 0.0)
        if deviation[k] > 0:
            positive += 1
    first, rest = np.empty(positive, np.int64), np.empty(n - positive, np.int64)
    keys = np.empty(positive)
    a = b = 0
    for k in range(n):
        if deviation[k] > 0:
            first[a], keys[a] = order[k], -deviation[k]
            a += 1
        else:
            rest[b] = order[k]
            b += 1
    ranked = first[np.argsort(keys, kind="mergesort")]  # stable: equal deviations stay shuffled
    for k in range(n):
        i = ranked[k] if k < positive else rest[k - positive]
        if fixed[i] == 1 or not np.isfinite(width[i]):
            continue
        growth = _room(i, item_start, item_target, item_weight, left, least)
        if growth > 0:
            width[i] += growth
            grew[i] = 1
            for e in range(item_start[i], item_start[i + 1]):
                t = item_target[e]
                left[t] = max(left[t] - item_weight[e] * growth, 0.0)
    return grew


@njit(cache=True, nogil=True)
def burden_targets(
    item_start, item_target, item_weight, target_start, target_item, target_weight, fixed, burden, targets
):  # fmt: skip
    """T in place, from its last value: Gauss-Seidel, then least squares if that does not converge."""
    n, m = len(burden), len(targets)
    for t in range(m):
        if not np.isfinite(targets[t]):
            targets[t] = 0.0
    sums = np.empty(n)  # Σ_k |w_ik| T_k
    best, best_size = targets.copy(), np.inf
    scale = 0.0
    for t in range(m):
        scale += _mean_over(t, target_start, target_item, target_weight, burden, fixed) ** 2
    worse = 0
    for sweep in range(SWEEPS + 1):
        for i in range(n):
            sums[i] = 0.0
            for e in range(item_start[i], item_start[i + 1]):
                sums[i] += item_weight[e] * targets[item_target[e]]
        size = 0.0
        for t in range(m):
            size += _residual_of(t, target_start, target_item, target_weight, burden, sums, fixed) ** 2
        if size < best_size:
            if size > 0.81 * best_size:
                worse += 1
            best_size = size
            best[:] = targets
        else:
            worse += 4
        if size <= TOLERANCE**2 * scale or worse >= 8 or sweep == SWEEPS or not np.isfinite(size):
            break
        for t in range(m):
            change = _residual_of(t, target_start, target_item, target_weight, burden, sums, fixed)
            targets[t] += change
            for e in range(target_start[t], target_start[t + 1]):
                sums[target_item[e]] += target_weight[e] * change
    targets[:] = best
    if best_size > TOLERANCE**2 * scale:
        _least_squares(
            item_start, item_target, item_weight, target_start, target_item, target_weight, fixed, burden, targets
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _mean_over(t, target_start, target_item, target_weight, amount, fixed):
    """The mean over a target's items of amount / |w|; 0 for a target of fixed items."""
    total, size = 0.0, 0
    for e in range(target_start[t], target_start[t + 1]):
        if fixed[target_item[e]] == 0:
            total += amount[target_item[e]] / target_weight[e]
            size += 1
    return total / size if size > 0 else 0.0


@njit(cache=True, nogil=True)
def _residual_of(t, target_start, target_item, target_weight, burden, sums, fixed):
    total, size = 0.0, 0
    for e in range(target_start[t], target_start[t + 1]):
        i = target_item[e]
        if fixed[i] == 0:
            total += (burden[i] - sums[i]) / target_weight[e]
            size += 1
    return total / size if size > 0 else 0.0


@njit(cache=True, nogil=True)
def _least_squares(
    item_start, item_target, item_weight, target_start, target_item, target_weight, fixed, burden, targets
):  # fmt: skip
    """Conjugate gradients on min |M T - b|, each row of M divided by its target's size; never leaves it worse."""
    n, m = len(burden), len(targets)
    size = np.zeros(m)
    sums = np.zeros(n)
    for i in range(n):
        for e in range(item_start[i], item_start[i + 1]):
            sums[i] += item_weight[e] * targets[item_target[e]]
    residual = np.empty(m)
    for t in range(m):
        residual[t] = _residual_of(t, target_start, target_item, target_weight, burden, sums, fixed)
        for e in range(target_start[t], target_start[t + 1]):
            size[t] += fixed[target_item[e]] == 0
    direction, image, back = np.zeros(m), np.empty(m), np.empty(n)
    last = 0.0
    for step in range(SWEEPS):
        # gradient = Mᵀ residual
        back[:] = 0.0
        for t in range(m):
            for e in range(target_start[t], target_start[t + 1]):
                if fixed[target_item[e]] == 0:
                    back[target_item[e]] += residual[t] / (size[t] * target_weight[e])
        now = 0.0
        gradient = np.zeros(m)
        for t in range(m):
            for e in range(target_start[t], target_start[t + 1]):
                gradient[t] += target_weight[e] * back[target_item[e]]
            now += gradient[t] * gradient[t]
        if not now > 0.0 or not np.isfinite(now):
            break
        turn = now / last if step > 0 else 0.0
        last = now
        for t in range(m):
            direction[t] = gradient[t] + turn * direction[t]
        for i in range(n):
            sums[i] = 0.0
            for e in range(item_start[i], item_start[i + 1]):
                sums[i] += item_weight[e] * direction[item_target[e]]
        length = 0.0
        for t in range(m):
            image[t] = _mean_over(t, target_start, target_item, target_weight, sums, fixed)
            length += image[t] * image[t]
        if not length > 0.0:
            break
        reach = now / length
        size_before, size_after = 0.0, 0.0
        for t in range(m):
            size_before += residual[t] * residual[t]
            targets[t] += reach * direction[t]
            residual[t] -= reach * image[t]
            size_after += residual[t] * residual[t]
        if size_before - size_after <= 1e-6 * size_before:
            break


@njit(cache=True, nogil=True)
def _room(i, item_start, item_target, item_weight, left, least):
    """How much an item may grow; 0 if that is no more than rounding, or if it is in no target."""
    room = np.inf
    for e in range(item_start[i], item_start[i + 1]):
        t = item_target[e]
        if left[t] <= least[t]:
            return 0.0
        room = min(room, left[t] / item_weight[e])
    return room if np.isfinite(room) else 0.0


@njit(cache=True, nogil=True)
def _shuffled(n, seed):
    """A permutation that depends on the seed alone."""
    order = np.arange(n)
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    for k in range(n - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        j = np.int64(mixed % np.uint64(k + 1))
        order[k], order[j] = order[j], order[k]
    return order
