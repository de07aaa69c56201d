"""The intervals that answers have, the widths that bounds allow, and narrowing where a bound has moved."""

from __future__ import annotations

import numpy as np
from numba import njit

from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_sites import ask, widen
from deadband.runtime.kernels.filter_state import inner

__all__ = ["DEFLATE", "INFLATE", "budgets", "interval", "intervals", "load_edges", "narrow", "unpadded"]

AVG, COUNT, MIN, SUM = fs.AVG, fs.COUNT, fs.MIN, fs.SUM
TARGETS, GROUPS = fs.TARGETS, fs.GROUPS

ROUNDING = 2.0**-50  # what plain SQL's own sum may be off by, as a share of Σ|w·x|
INFLATE = 1.0 + 2.0**-40  # above what rounding takes from a spread
DEFLATE = 1.0 - 2.0**-30
HEADROOM = 0.9  # of a percent bound that widths use, so that not every step of the answer narrows them
NARROWED = 0.8  # of a percent bound that is left after it did
ROUNDS = 40  # of narrowing in one tick, before widths go to 0


@inner
def _linear(wiring, state, t, cell):
    """(mid, half) of a sum: half covers widths and rounding, and is within the bound where it can be."""
    members = state.count[t] if wiring.cell_kind[cell] == AVG else 1.0
    mid = (state.high[t] + state.low[t]) / members
    spread = max(state.spread[t] + state.spread_low[t], 0.0) * INFLATE
    rounding = ROUNDING * (state.size[t] + abs(wiring.cell_offset[cell]) * members)
    bound = wiring.cell_bound[cell]
    if wiring.cell_percent[cell] == 1:
        bound = 2.0 * bound * abs(mid + wiring.cell_offset[cell]) / (2.0 + bound)
    room = max((bound * members - spread) / 2.0 - rounding, 0.0)
    return mid + wiring.cell_offset[cell], (spread / 2.0 + min(rounding, room)) / members


@inner
def interval(wiring, state, cell):
    """(low, high) of an answer; NaN: NULL."""
    kind, first, last = wiring.cell_kind[cell], wiring.cell_start[cell], wiring.cell_start[cell + 1]
    low, high = np.nan, np.nan
    if kind == COUNT:
        low = high = state.count[wiring.cell_target[first]] + wiring.cell_offset[cell]
    elif kind in (SUM, AVG):
        t = wiring.cell_target[first]
        if state.count[t] > 0:
            mid, half = _linear(wiring, state, t, cell)
            low, high = mid - half, mid + half
    else:
        for k in range(first, last):
            t = wiring.cell_target[k]
            if state.count[t] <= 0:
                continue
            mid, half = _linear(wiring, state, t, cell)
            if np.isnan(low):
                low, high = mid - half, mid + half
            elif kind == MIN:
                low, high = min(low, mid - half), min(high, mid + half)
            else:
                low, high = max(low, mid - half), max(high, mid + half)
    if np.isnan(low):
        low = high = wiring.cell_default[cell]
    return low, high


@inner
def _budget(wiring, state, t, mid):
    """Σ|w|·width that target t may have; mid: of its cell, for percent bounds."""
    cell = wiring.target_cell[t]
    kind, bound = wiring.cell_kind[cell], wiring.cell_bound[cell]
    if kind == COUNT:
        return np.inf
    members = state.count[t] if kind == AVG else 1.0
    if members <= 0.0:
        return 0.0
    if wiring.cell_percent[cell] == 1:
        bound = 2.0 * bound * abs(mid) / (2.0 + bound)
    rounding = ROUNDING * (state.size[t] + abs(wiring.cell_offset[cell]) * members)
    return max(bound * members - 4.0 * rounding, 0.0) * DEFLATE


@njit(cache=True, nogil=True)
def budgets(wiring, state):
    """Σ|w|·width that each target may plan with; percent bounds keep some headroom."""
    found = np.empty(len(wiring.target_cell))
    for cell in range(len(wiring.cell_kind)):
        low, high = interval(wiring, state, cell)
        mid = 0.0 if np.isnan(low) else (low + high) / 2.0
        share = HEADROOM if wiring.cell_percent[cell] == 1 else 1.0
        for k in range(wiring.cell_start[cell], wiring.cell_start[cell + 1]):
            t = wiring.cell_target[k]
            found[t] = _budget(wiring, state, t, mid) * share
    return found


@njit(cache=True, nogil=True)
def intervals(wiring, state):
    """(low, high) of every cell, as the coordinator knows them."""
    low, high = np.empty(len(wiring.cell_kind)), np.empty(len(wiring.cell_kind))
    for cell in range(len(wiring.cell_kind)):
        low[cell], high[cell] = interval(wiring, state, cell)
    return low, high


@inner
def _narrow(wiring, state, t, factor):
    """Scales the widths of a target's filters; their sites apply them again after this round."""
    F, V = len(wiring.feature_start) - 1, len(wiring.value_feature)
    narrowed = False
    for e in range(wiring.target_start[t], wiring.target_start[t + 1]):
        s = wiring.target_slot[e]
        i = s // V
        j = i * F + wiring.value_feature[s % V]
        if state.active[j] == 0 or state.width[j] <= 0.0 or wiring.value_needs[s % V] & ~state.present[i] != 0:
            continue
        narrowed = True
        state.control[j] += 1 - state.in_recheck[j]
        ask(state, j)
        widen(wiring, state, j, state.width[j] * factor if factor > 1e-6 else 0.0)
    if not narrowed:
        _clear(wiring, state, t)
    return narrowed


@inner
def _clear(wiring, state, t):
    """A target without widths: what is left of its spread, but for padding, is rounding."""
    F, V = len(wiring.feature_start) - 1, len(wiring.value_feature)
    state.spread[t] = state.spread_low[t] = 0.0
    for e in range(wiring.target_start[t], wiring.target_start[t + 1]):
        s = wiring.target_slot[e]
        i = s // V
        j = i * F + wiring.value_feature[s % V]
        if state.active[j] == 1 and wiring.value_needs[s % V] & ~state.present[i] == 0:
            state.spread[t] += wiring.target_load[e] * wiring.pad[j]


@njit(cache=True, nogil=True)
def narrow(wiring, state, attempt):
    """One round: narrows what this tick has made wider than its bound; true while there was something to narrow."""
    narrowed, zero = False, attempt >= ROUNDS
    k = 0
    while k < state.clock[TARGETS]:
        t = state.targets[k]
        k += 1
        cell = wiring.target_cell[t]
        kind, percent = wiring.cell_kind[cell], wiring.cell_percent[cell] == 1
        spread = state.spread[t] + state.spread_low[t]
        if kind == COUNT or spread <= 0.0 or (percent and kind >= MIN):
            continue
        mid = 0.0
        if percent and state.count[t] > 0:
            mid, _ = _linear(wiring, state, t, cell)
        budget = _budget(wiring, state, t, mid)
        if spread > budget * INFLATE:
            share = 0.0 if zero else budget / spread * (NARROWED if percent else DEFLATE)
            narrowed |= _narrow(wiring, state, t, share)
    k = 0
    while k < state.clock[GROUPS]:
        g = state.groups[k]
        k += 1
        for cell in range(wiring.group_start[g], wiring.group_start[g + 1]):
            if wiring.cell_percent[cell] == 1 and wiring.cell_kind[cell] >= MIN:
                narrowed |= _narrow_extremum(wiring, state, cell, zero)
    return narrowed


@inner
def _narrow_extremum(wiring, state, cell, zero):
    """A percent bound on MIN or MAX: the targets that may be the extremum are narrowed."""
    low, high = interval(wiring, state, cell)
    if np.isnan(low) or (high - low <= wiring.cell_bound[cell] * min(abs(low), abs(high)) and low * high >= 0.0):
        return False
    narrowed = False
    for k in range(wiring.cell_start[cell], wiring.cell_start[cell + 1]):
        t = wiring.cell_target[k]
        spread = state.spread[t] + state.spread_low[t]
        if state.count[t] <= 0 or spread <= 0.0:
            continue
        mid, half = _linear(wiring, state, t, cell)
        if (mid - half <= high) if wiring.cell_kind[cell] == MIN else (mid + half >= low):
            budget = _budget(wiring, state, t, (low + high) / 2.0)
            if zero or spread > NARROWED * budget:
                narrowed |= _narrow(wiring, state, t, 0.0 if zero else min(NARROWED * budget / spread, 0.5))
    return narrowed


@njit(cache=True, nogil=True)
def load_edges(wiring, state):
    """(filter, target, |w|) of all that is on."""
    F, V = len(wiring.feature_start) - 1, len(wiring.value_feature)
    room = len(wiring.value_target)
    filters, targets, loads = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    n = 0
    for j in range(len(state.active)):
        if state.active[j] == 0:
            continue
        i, f = j // F, j % F
        for at in range(wiring.feature_start[f], wiring.feature_start[f + 1]):
            v = wiring.feature_slot[at]
            if wiring.value_needs[v] & ~state.present[i] == 0:
                for e in range(wiring.value_start[i * V + v], wiring.value_start[i * V + v + 1]):
                    filters[n], targets[n], loads[n] = j, wiring.value_target[e], wiring.value_load[e]
                    n += 1
    return filters[:n], targets[:n], loads[:n]


@njit(cache=True, nogil=True)
def unpadded(wiring, state):
    """What each target has for the widths of its filters: its budget less the padding."""
    room = budgets(wiring, state)
    filters, targets, loads = load_edges(wiring, state)
    for e in range(len(filters)):
        room[targets[e]] -= loads[e] * wiring.pad[filters[e]]
    return np.maximum(room, 0.0)
