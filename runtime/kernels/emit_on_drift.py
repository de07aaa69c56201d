"""Many affine answers over shared items, kept incrementally and reported when they leave their bound.

Law. Before a tick, sum[t] = Σ fl(w·x) over the items in force, as an unevaluated pair hi + lo (error below 2⁻¹⁰⁰ of
Σ|w·x|), so answers depend neither on batches nor on how groups are cut. A changed item costs two products and two
error-free sums per answer it enters; a tick costs the answers it touched, never all of them. After a tick, every group
that plain SQL has is reported, and abs(reported - truth) <= bound, unless FIDELITY lets the group miss this tick.

A slot is a number kept per item: a feature's value (value slots) or 1 (flag slots), while the features it needs are
not NULL and the item is alive; else 0. Group g has answers t = g·A … g·A + A-1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "AVG", "COUNT", "SUM", "Emitted", "Rows", "State", "Wiring",
    "counted", "new_state", "step", "sum_anew", "touch", "touch_all",
]  # fmt: skip

SUM, AVG, COUNT = 0, 1, 2  # kinds of answers
ROWS_TOTAL, COUNT_TOTAL, SUM_TOTAL = 0, 1, 2  # where a flag edge goes

# columns of State.counts, one row per query
REPORTED, INITIAL, BASELINE, VIOLATIONS, GROUP_TICKS = 0, 1, 2, 3, 4
# columns of State.figures
MAX_ERROR, WORST_SHARE = 0, 1
# entries of State.clock
TICK, WINDOW, WINDOW_FIRST, TOUCHED, PENDING, MISSED = 0, 1, 2, 3, 4, 5

NEVER, ON, OFF = 0, 1, 2  # a flag slot: OFF was ON before

ROUNDING = 2.0**-50  # what plain SQL's own sum may be off by, as a share of Σ|w·x|


class Wiring(NamedTuple):
    """What the plan fixes: which slot weighs how much in which total, and what is promised."""

    value_feature: NDArray  # int64[V]
    value_needs: NDArray  # uint64[V], bits of features
    value_start: NDArray  # int64[I·V + 1]
    value_target: NDArray  # int32[edges], answers
    value_weight: NDArray  # float64[edges]
    flag_needs: NDArray  # uint64[K]
    flag_start: NDArray  # int64[I·K + 1]
    flag_target: NDArray  # int32[edges], groups for ROWS_TOTAL, else answers
    flag_total: NDArray  # int8[edges]
    flag_weight: NDArray  # float64[edges]
    kind: NDArray  # int8[A]
    offset: NDArray  # float64[A]
    default: NDArray  # float64[A], NaN: none
    percent: NDArray  # uint8[A]
    bound: NDArray  # float64[G·A]
    query: NDArray  # int32[G]
    always: NDArray  # uint8[G], a group that plain SQL has even without rows
    miss: NDArray  # float64[1], the share of ticks that may be missed


class State(NamedTuple):
    """Everything that outlives a step."""

    value: NDArray  # float64[I·V]
    ceiling: NDArray  # float64[I·V], a power of two above every abs(value) so far
    flag: NDArray  # uint8[I·K], NEVER, ON or OFF
    high: NDArray  # float64[G·A]
    low: NDArray  # float64[G·A]
    size: NDArray  # float64[G·A], above Σ|w·x|
    count: NDArray  # float64[G·A]
    rows: NDArray  # float64[G]
    truth: NDArray  # float64[G·A], NaN: NULL
    reported: NDArray  # float64[G·A], NaN: NULL
    alive: NDArray  # uint8[G]
    born: NDArray  # int64[G]
    missed: NDArray  # int64[G], ticks missed in this window
    touched: NDArray  # int32[G]
    is_touched: NDArray  # uint8[G]
    pending: NDArray  # int32[G], groups out of bound and not reported
    is_pending: NDArray  # uint8[G]
    misses: NDArray  # int32[G], groups with missed > 0
    clock: NDArray  # int64[6]
    counts: NDArray  # int64[Q, 5]
    figures: NDArray  # float64[Q, 2]


class Rows(NamedTuple):
    """Updates of the ticks of one step, sorted by tick, then key; each key at most once a tick."""

    start: NDArray  # int64[ticks + 1], first row of each tick
    item: NDArray  # int32[rows]
    present: NDArray  # uint64[rows], bits of the features that are not NULL
    deleted: NDArray  # uint8[rows]
    feature: NDArray  # float64[rows, F], finite
    window: NDArray  # int64[ticks], number of the FIDELITY window


class Emitted(NamedTuple):
    """Reports in order: tick within the step, group, +1 or -1, and the answers (NaN: NULL)."""

    tick: NDArray
    group: NDArray
    diff: NDArray
    answer: NDArray  # float64[reports, A]


def new_state(wiring: Wiring, items: int, queries: int) -> State:
    """Nothing has arrived yet; groups that always exist wait for their first answer."""
    groups, answers = len(wiring.query), len(wiring.bound)
    values, flags = items * len(wiring.value_feature), items * len(wiring.flag_needs)
    figures = np.zeros((queries, 2))
    figures[:, WORST_SHARE] = 1.0
    clock = np.zeros(6, np.int64)
    clock[WINDOW] = np.iinfo(np.int64).min
    state = State(
        value=np.zeros(values),
        ceiling=np.zeros(values),
        flag=np.zeros(flags, np.uint8),
        high=np.zeros(answers),
        low=np.zeros(answers),
        size=np.zeros(answers),
        count=np.zeros(answers),
        rows=np.zeros(groups),
        truth=np.full(answers, np.nan),
        reported=np.full(answers, np.nan),
        alive=np.zeros(groups, np.uint8),
        born=np.zeros(groups, np.int64),
        missed=np.zeros(groups, np.int64),
        touched=np.zeros(groups, np.int32),
        is_touched=np.zeros(groups, np.uint8),
        pending=np.zeros(groups, np.int32),
        is_pending=np.zeros(groups, np.uint8),
        misses=np.zeros(groups, np.int32),
        clock=clock,
        counts=np.zeros((queries, 5), np.int64),
        figures=figures,
    )
    touch(state, np.flatnonzero(wiring.always))
    return state


def touch(state: State, groups: NDArray) -> None:
    """Marks groups to be looked at in the next tick whether or not their items change."""
    new = groups[state.is_touched[groups] == 0].astype(np.int32)
    first = state.clock[TOUCHED]
    state.touched[first : first + len(new)] = new
    state.is_touched[new] = 1
    state.clock[TOUCHED] += len(new)


def touch_all(state: State) -> None:
    touch(state, np.arange(len(state.rows)))


def step(wiring: Wiring, state: State, rows: Rows) -> Emitted:
    """Applies whole ticks to the state, in place, and gives the reports they cause."""
    tick, group, diff, answer = _step(wiring, state, rows)
    return Emitted(tick, group, diff, answer.reshape(-1, len(wiring.kind)))


def counted(wiring: Wiring, state: State) -> tuple[NDArray, NDArray]:
    """Counts and figures per query up to now: groups still there add their ticks, open windows their share."""
    counts, figures = state.counts.copy(), state.figures.copy()
    now = state.clock[TICK]
    alive = np.flatnonzero(state.alive)
    np.add.at(counts[:, GROUP_TICKS], wiring.query[alive], now - state.born[alive])
    missed = np.flatnonzero(state.missed)
    first = np.maximum(state.clock[WINDOW_FIRST], state.born[missed])
    share = 1.0 - state.missed[missed] / np.maximum(now - first, 1)
    np.minimum.at(figures[:, WORST_SHARE], wiring.query[missed], share)
    return counts, figures


@njit(cache=True, nogil=True)
def sum_anew(wiring, state):
    """Totals from the items in force, for weights that have changed."""
    for total in (state.high, state.low, state.size, state.count, state.rows):
        total[:] = 0.0
    for s in range(len(state.value)):
        for e in range(wiring.value_start[s], wiring.value_start[s + 1]):
            t, weight = wiring.value_target[e], wiring.value_weight[e]
            _add(state.high, state.low, t, weight * state.value[s], 0.0)
            state.size[t] += abs(weight) * state.ceiling[s]
    for s in range(len(state.flag)):
        for e in range(wiring.flag_start[s], wiring.flag_start[s + 1]):
            t, weight = wiring.flag_target[e], wiring.flag_weight[e]
            if wiring.flag_total[e] == SUM_TOTAL and state.flag[s] != NEVER:
                state.size[t] += abs(weight)
            if state.flag[s] != ON:
                continue
            if wiring.flag_total[e] == ROWS_TOTAL:
                state.rows[t] += weight
            elif wiring.flag_total[e] == COUNT_TOTAL:
                state.count[t] += weight
            else:
                _add(state.high, state.low, t, weight, 0.0)


@njit(cache=True, nogil=True)
def _add(high, low, at, amount_high, amount_low):
    """high + low += amount, without losing what rounding cuts off."""
    a = high[at]
    s = a + amount_high
    b = s - a
    low[at] += (a - (s - b)) + (amount_high - b) + amount_low
    high[at] = s


@njit(cache=True, nogil=True)
def _value_of(wiring, state, group, answer):
    """An answer as plain SQL gives it; NaN stands for NULL."""
    t = group * len(wiring.kind) + answer
    count = state.count[t]
    if wiring.kind[answer] == COUNT:
        found = count
    elif count <= 0:
        found = np.nan
    elif wiring.kind[answer] == SUM:
        found = state.high[t] + state.low[t]
    else:
        found = (state.high[t] + state.low[t]) / count
    found += wiring.offset[answer]
    return wiring.default[answer] if np.isnan(found) else found


@njit(cache=True, nogil=True)
def _apply(wiring, state, rows, r):
    """One row: every slot of its item takes its new value, and the totals follow."""
    V, K, A = len(wiring.value_feature), len(wiring.flag_needs), len(wiring.kind)
    item, present = np.int64(rows.item[r]), rows.present[r]
    living = rows.deleted[r] == 0
    touched, is_touched = state.touched, state.is_touched
    waiting = state.clock[TOUCHED]
    for v in range(V):
        s = item * V + v
        new = 0.0
        if living and (wiring.value_needs[v] & ~present) == 0:
            new = rows.feature[r, wiring.value_feature[v]]
        old = state.value[s]
        if new == old:
            continue
        state.value[s] = new
        first, last = wiring.value_start[s], wiring.value_start[s + 1]
        if abs(new) > state.ceiling[s]:
            above = 2.0 ** np.ceil(np.log2(abs(new)))
            if above < abs(new):
                above *= 2.0
            for e in range(first, last):
                state.size[wiring.value_target[e]] += abs(wiring.value_weight[e]) * (above - state.ceiling[s])
            state.ceiling[s] = above
        for e in range(first, last):
            t = wiring.value_target[e]
            weight = wiring.value_weight[e]
            plus, minus = weight * new, -(weight * old)
            total = plus + minus
            part = total - plus
            _add(state.high, state.low, t, total, (plus - (total - part)) + (minus - part))
            g = t // A
            if is_touched[g] == 0:
                is_touched[g] = 1
                touched[waiting] = g
                waiting += 1
    for k in range(K):
        s = item * K + k
        on = living and (wiring.flag_needs[k] & ~present) == 0
        if on == (state.flag[s] == ON):
            continue
        first_time = state.flag[s] == NEVER
        state.flag[s] = ON if on else OFF
        for e in range(wiring.flag_start[s], wiring.flag_start[s + 1]):
            t = wiring.flag_target[e]
            change = wiring.flag_weight[e] if on else -wiring.flag_weight[e]
            g = t // A
            if wiring.flag_total[e] == ROWS_TOTAL:
                g = t
                state.rows[t] += change
            elif wiring.flag_total[e] == COUNT_TOTAL:
                state.count[t] += change
            else:
                _add(state.high, state.low, t, change, 0.0)
                if first_time:
                    state.size[t] += abs(change)
            if is_touched[g] == 0:
                is_touched[g] = 1
                touched[waiting] = g
                waiting += 1
    state.clock[TOUCHED] = waiting


@njit(cache=True, nogil=True)
def _drift(wiring, state, g):
    """(out of bound, must be reported now, largest error) of a living group, its truth refreshed."""
    A = len(wiring.kind)
    out, must, changed, worst = False, False, False, 0.0
    for a in range(A):
        t = g * A + a
        now = _value_of(wiring, state, g, a)
        before, last = state.truth[t], state.reported[t]
        if now != before and not (np.isnan(now) and np.isnan(before)):
            changed = True
            state.truth[t] = now
        if np.isnan(now) or np.isnan(last):
            if np.isnan(now) != np.isnan(last):
                out = must = True
            continue
        error = abs(now - last)
        limit = wiring.bound[t] * abs(last) if wiring.percent[a] else wiring.bound[t]
        allowance = ROUNDING * state.size[t]
        if wiring.kind[a] == AVG:
            allowance /= max(state.count[t], 1.0)
        elif wiring.kind[a] == COUNT:
            allowance = 0.0
        if error > max(limit - allowance, 0.0):
            out = True
        worst = max(worst, error)
    return out, must, changed, worst


@njit(cache=True, nogil=True)
def _close_window(wiring, state):
    """The share of its ticks in which each group that missed some was in bound; counting starts anew."""
    clock = state.clock
    for i in range(clock[MISSED]):
        g = state.misses[i]
        if state.missed[g] > 0:
            first = max(clock[WINDOW_FIRST], state.born[g])
            share = 1.0 - state.missed[g] / max(clock[TICK] - first, 1)
            q = wiring.query[g]
            state.figures[q, WORST_SHARE] = min(state.figures[q, WORST_SHARE], share)
            state.missed[g] = 0
    clock[MISSED] = 0


@njit(cache=True, nogil=True)
def _step(wiring, state, rows):
    A = len(wiring.kind)
    clock, counts, figures = state.clock, state.counts, state.figures
    out_tick = np.empty(1024, np.int64)
    out_group = np.empty(1024, np.int32)
    out_diff = np.empty(1024, np.int8)
    out_answer = np.empty(1024 * A)
    n = 0
    for tick in range(len(rows.window)):
        if rows.window[tick] != clock[WINDOW]:
            _close_window(wiring, state)
            clock[WINDOW] = rows.window[tick]
            clock[WINDOW_FIRST] = clock[TICK]
        for r in range(rows.start[tick], rows.start[tick + 1]):
            _apply(wiring, state, rows, r)
        for i in range(clock[PENDING]):
            g = state.pending[i]
            if state.is_pending[g] == 1 and state.is_touched[g] == 0:
                state.is_touched[g] = 1
                state.touched[clock[TOUCHED]] = g
                clock[TOUCHED] += 1
            state.is_pending[g] = 0
        clock[PENDING] = 0
        for i in range(clock[TOUCHED]):
            g = state.touched[i]
            state.is_touched[g] = 0
            q = wiring.query[g]
            living = state.rows[g] > 0 or wiring.always[g] == 1
            if not living and state.alive[g] == 0:
                continue
            diff = 1
            if not living:
                diff = -1
                state.alive[g] = 0
                counts[q, GROUP_TICKS] += clock[TICK] - state.born[g]
                counts[q, REPORTED] += 1
                counts[q, BASELINE] += 1
            elif state.alive[g] == 0:
                state.alive[g] = 1
                state.born[g] = clock[TICK]
                counts[q, INITIAL] += 1
                for a in range(A):
                    state.truth[g * A + a] = _value_of(wiring, state, g, a)
            else:
                out, must, changed, error = _drift(wiring, state, g)
                if changed:
                    counts[q, BASELINE] += 1
                if out and not must and wiring.miss[0] > 0:
                    first = max(clock[WINDOW_FIRST], state.born[g])
                    if state.missed[g] + 1 <= wiring.miss[0] * (clock[TICK] - first + 1):
                        if state.missed[g] == 0:
                            state.misses[clock[MISSED]] = g
                            clock[MISSED] += 1
                        state.missed[g] += 1
                        state.is_pending[g] = 1
                        state.pending[clock[PENDING]] = g
                        clock[PENDING] += 1
                        counts[q, VIOLATIONS] += 1
                        out = False
                if not out:
                    figures[q, MAX_ERROR] = max(figures[q, MAX_ERROR], error)
                    continue
                counts[q, REPORTED] += 1
            if n == len(out_tick):
                out_tick = np.concatenate((out_tick, np.empty(n, np.int64)))
                out_group = np.concatenate((out_group, np.empty(n, np.int32)))
                out_diff = np.concatenate((out_diff, np.empty(n, np.int8)))
                out_answer = np.concatenate((out_answer, np.empty(n * A)))
            out_tick[n], out_group[n], out_diff[n] = tick, g, diff
            for a in range(A):
                t = g * A + a
                if diff == 1:
                    state.reported[t] = state.truth[t]
                out_answer[n * A + a] = state.reported[t]
                if diff == -1:
                    state.reported[t] = np.nan
                    state.truth[t] = np.nan
            n += 1
        clock[TOUCHED] = 0
        clock[TICK] += 1
    return out_tick[:n].copy(), out_group[:n].copy(), out_diff[:n].copy(), out_answer[: n * A].copy()
