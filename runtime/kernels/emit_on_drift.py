"""Many affine answers over shared items, kept incrementally and reported when they leave their bound.

Law. Before a tick, sum[t] = Σ fl(w·x) over the items in force, as an unevaluated pair hi + lo (n changes lose at most
n·2⁻¹⁰⁴ of the largest Σ|w·x| so far), so answers depend neither on batches nor on how groups are cut. A changed item
costs two products and two error-free sums per answer it enters; a tick costs the answers it touched, never all of them.
After a tick, every group that plain SQL has is reported, and abs(reported - truth) <= bound, unless FIDELITY lets the
group miss this tick. A group misses a tick only where that keeps the share of the window's ticks so far; one that
vanishes and comes back counts anew.

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
# what became of a touched group: bits of a living one, or one of the other three
UNCHANGED, CHANGED, OUT, MUST = 0, 1, 2, 4
ABSENT, VANISHED, APPEARED = 8, 16, 32

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
    share: NDArray  # float64[1], of a window's ticks that must be in bound


class State(NamedTuple):
    """Everything that outlives a step."""

    value: NDArray  # float64[I·V]
    ceiling: NDArray  # float64[I·V], a power of two above every abs(value) so far
    flag: NDArray  # uint8[I·K], NEVER, ON or OFF
    high: NDArray  # float64[G·A]
    low: NDArray  # float64[G·A]
    size: NDArray  # float64[G·A], above Σ|w·x|
    count: NDArray  # type: ignore[assignment]  # float64[G·A]
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
    misses: NDArray  # int32[G], groups that missed a tick in this window
    in_misses: NDArray  # uint8[G]
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
        in_misses=np.zeros(groups, np.uint8),
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
    ticks = now - np.maximum(state.clock[WINDOW_FIRST], state.born[missed])
    np.minimum.at(figures[:, WORST_SHARE], wiring.query[missed], (ticks - state.missed[missed]) / ticks)
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


@njit(cache=True, nogil=True, inline="always")
def _answer_of(kind, high, low, count, offset, default):
    """An answer as plain SQL gives it; NaN stands for NULL."""
    if kind == COUNT:
        found = count + offset
    elif count <= 0:
        found = np.nan
    elif kind == SUM:
        found = high + low + offset
    else:
        found = (high + low) / count + offset
    return default if np.isnan(found) else found


@njit(cache=True, nogil=True)
def _values(wiring, state, rows, first_row, last_row):
    """The value slots of the items in these rows take their new values, and the sums follow."""
    V, A = len(wiring.value_feature), len(wiring.kind)
    slot_feature, slot_needs = wiring.value_feature, wiring.value_needs
    start, target, weights = wiring.value_start, wiring.value_target, wiring.value_weight
    items, presents, deleted, features = rows.item, rows.present, rows.deleted, rows.feature
    value, ceiling, high, low, size = state.value, state.ceiling, state.high, state.low, state.size
    touched, is_touched, clock = state.touched, state.is_touched, state.clock
    waiting = clock[TOUCHED]
    for r in range(first_row, last_row):
        for v in range(V):
            s = np.int64(items[r]) * V + v
            new = 0.0
            if deleted[r] == 0 and (slot_needs[v] & ~presents[r]) == 0:
                new = features[r, slot_feature[v]]
            old = value[s]
            if new == old:
                continue
            value[s] = new
            if abs(new) > ceiling[s]:
                above = 2.0 ** np.ceil(np.log2(abs(new)))
                if above < abs(new):
                    above *= 2.0
                for e in range(start[s], start[s + 1]):
                    size[target[e]] += abs(weights[e]) * (above - ceiling[s])
                ceiling[s] = above
            for e in range(start[s], start[s + 1]):
                t = target[e]
                # fl(w·new) - fl(w·old) as an exact pair, then added to the pair high + low
                plus, minus = weights[e] * new, -(weights[e] * old)
                total = plus + minus
                part = total - plus
                rest = (plus - (total - part)) + (minus - part)
                before = high[t]
                after = before + total
                part = after - before
                low[t] += (before - (after - part)) + (total - part) + rest
                high[t] = after
                g = t if A == 1 else t // A
                if is_touched[g] == 0:
                    is_touched[g] = 1
                    touched[waiting] = g
                    waiting += 1
    clock[TOUCHED] = waiting


@njit(cache=True, nogil=True)
def _flags(wiring, state, rows, first_row, last_row):
    """The flag slots of the items in these rows switch on or off, and counts and constants follow."""
    K, A = len(wiring.flag_needs), len(wiring.kind)
    needs, start, target = wiring.flag_needs, wiring.flag_start, wiring.flag_target
    totals, weights = wiring.flag_total, wiring.flag_weight
    items, presents, deleted = rows.item, rows.present, rows.deleted
    flag, high, low, size, count, members = state.flag, state.high, state.low, state.size, state.count, state.rows
    touched, is_touched, clock = state.touched, state.is_touched, state.clock
    waiting = clock[TOUCHED]
    for r in range(first_row, last_row):
        for k in range(K):
            s = np.int64(items[r]) * K + k
            on = deleted[r] == 0 and (needs[k] & ~presents[r]) == 0
            if on == (flag[s] == ON):
                continue
            first_time = flag[s] == NEVER
            flag[s] = ON if on else OFF
            for e in range(start[s], start[s + 1]):
                t = target[e]
                change = weights[e] if on else -weights[e]
                g = t // A
                if totals[e] == ROWS_TOTAL:
                    g = t
                    members[t] += change
                elif totals[e] == COUNT_TOTAL:
                    count[t] += change
                else:
                    _add(high, low, t, change, 0.0)
                    if first_time:
                        size[t] += abs(change)
                if is_touched[g] == 0:
                    is_touched[g] = 1
                    touched[waiting] = g
                    waiting += 1
    clock[TOUCHED] = waiting


@njit(cache=True, nogil=True)
def _look(wiring, state, looked, drift):
    """For every touched group: its truth refreshed; looked says what became of it, drift its largest error."""
    A = len(wiring.kind)
    kinds, offsets, defaults, percent, bound = wiring.kind, wiring.offset, wiring.default, wiring.percent, wiring.bound
    always = wiring.always
    high, low, size, count, members = state.high, state.low, state.size, state.count, state.rows
    truth, reported, alive = state.truth, state.reported, state.alive
    touched, is_touched = state.touched, state.is_touched
    for i in range(state.clock[TOUCHED]):
        g = touched[i]
        is_touched[g] = 0
        if not (members[g] > 0 or always[g] == 1):
            looked[i] = VANISHED if alive[g] == 1 else ABSENT
            continue
        found, worst = UNCHANGED, 0.0
        for a in range(A):
            t = g * A + a
            settled = high[t] + low[t]  # low below one rounding of high, so that low itself loses little
            low[t] -= settled - high[t]
            high[t] = settled
            now = _answer_of(kinds[a], high[t], low[t], count[t], offsets[a], defaults[a])
            before, last = truth[t], reported[t]
            if now != before and not (np.isnan(now) and np.isnan(before)):
                found |= CHANGED
                truth[t] = now
            if np.isnan(now) or np.isnan(last):
                if np.isnan(now) != np.isnan(last):
                    found |= OUT | MUST
                continue
            error = abs(now - last)
            limit = bound[t] * abs(last) if percent[a] else bound[t]
            if kinds[a] == SUM:
                limit -= ROUNDING * (size[t] + abs(offsets[a]) + abs(last))
            elif kinds[a] == AVG:
                limit -= ROUNDING * (size[t] / max(count[t], 1.0) + abs(offsets[a]) + abs(last))
            if error > limit and error > 0:
                found |= OUT
            worst = max(worst, error)
        looked[i] = found if alive[g] == 1 else APPEARED
        drift[i] = worst


@njit(cache=True, nogil=True)
def _settle_share(wiring, state, g):
    """The share of the window's ticks in which a group was in bound; it counts anew from here."""
    if state.missed[g] > 0:
        ticks = state.clock[TICK] - max(state.clock[WINDOW_FIRST], state.born[g])
        q = wiring.query[g]
        state.figures[q, WORST_SHARE] = min(state.figures[q, WORST_SHARE], (ticks - state.missed[g]) / ticks)
        state.missed[g] = 0


@njit(cache=True, nogil=True)
def _close_window(wiring, state):
    """Every group that missed a tick in this window settles its share."""
    for i in range(state.clock[MISSED]):
        g = state.misses[i]
        _settle_share(wiring, state, g)
        state.in_misses[g] = 0
    state.clock[MISSED] = 0


@njit(cache=True, nogil=True)
def _decide(wiring, state, looked, drift, decided):
    """Which touched groups are reported (+1) or withdrawn (-1); counts, and what FIDELITY lets pass."""
    queries, share = wiring.query, wiring.share[0]
    touched, alive, born, missed = state.touched, state.alive, state.born, state.missed
    clock, counts, figures = state.clock, state.counts, state.figures
    now, window_first = clock[TICK], clock[WINDOW_FIRST]
    reports = 0
    for i in range(clock[TOUCHED]):
        g, what = touched[i], looked[i]
        decided[i] = 0
        if what in (ABSENT, UNCHANGED):
            if what == UNCHANGED:
                figures[queries[g], MAX_ERROR] = max(figures[queries[g], MAX_ERROR], drift[i])
            continue
        q = queries[g]
        if what == VANISHED:
            alive[g] = 0
            _settle_share(wiring, state, g)
            counts[q, GROUP_TICKS] += now - born[g]
            counts[q, REPORTED] += 1
            counts[q, BASELINE] += 1
            decided[i] = -1
        elif what == APPEARED:
            alive[g] = 1
            born[g] = now
            counts[q, INITIAL] += 1
            decided[i] = 1
        else:
            if what & CHANGED:
                counts[q, BASELINE] += 1
            out = what & OUT != 0
            if out and share < 1 and what & MUST == 0:
                ticks = now - max(window_first, born[g]) + 1
                if (ticks - missed[g] - 1) / ticks >= share:
                    if state.in_misses[g] == 0:
                        state.in_misses[g] = 1
                        state.misses[clock[MISSED]] = g
                        clock[MISSED] += 1
                    missed[g] += 1
                    state.is_pending[g] = 1
                    state.pending[clock[PENDING]] = g
                    clock[PENDING] += 1
                    counts[q, VIOLATIONS] += 1
                    out = False
            if not out:
                figures[q, MAX_ERROR] = max(figures[q, MAX_ERROR], drift[i])
                continue
            counts[q, REPORTED] += 1
            decided[i] = 1
        reports += 1
    return reports


@njit(cache=True, nogil=True)
def _touch_pending(state):
    """Groups that were let pass are looked at again in the next tick, touched or not."""
    clock, pending, is_pending = state.clock, state.pending, state.is_pending
    for i in range(clock[PENDING]):
        g = pending[i]
        if state.is_touched[g] == 0:
            state.is_touched[g] = 1
            state.touched[clock[TOUCHED]] = g
            clock[TOUCHED] += 1
        is_pending[g] = 0
    clock[PENDING] = 0


@njit(cache=True, nogil=True)
def _step(wiring, state, rows):
    A, G = len(wiring.kind), len(wiring.query)
    clock, touched, truth, reported = state.clock, state.touched, state.truth, state.reported
    looked, drift, decided = np.zeros(G, np.int8), np.zeros(G), np.zeros(G, np.int8)
    room = 1024
    out_tick, out_group = np.empty(room, np.int64), np.empty(room, np.int32)
    out_diff, out_answer = np.empty(room, np.int8), np.empty(room * A)
    n = 0
    for tick in range(len(rows.window)):
        if rows.window[tick] != clock[WINDOW]:
            _close_window(wiring, state)
            clock[WINDOW] = rows.window[tick]
            clock[WINDOW_FIRST] = clock[TICK]
        _values(wiring, state, rows, rows.start[tick], rows.start[tick + 1])
        _flags(wiring, state, rows, rows.start[tick], rows.start[tick + 1])
        _touch_pending(state)
        _look(wiring, state, looked, drift)
        reports = _decide(wiring, state, looked, drift, decided)
        if n + reports > room:
            more = max(room, reports)
            out_tick = np.concatenate((out_tick, np.empty(more, np.int64)))
            out_group = np.concatenate((out_group, np.empty(more, np.int32)))
            out_diff = np.concatenate((out_diff, np.empty(more, np.int8)))
            out_answer = np.concatenate((out_answer, np.empty(more * A)))
            room += more
        for i in range(clock[TOUCHED] if reports else 0):
            if decided[i] == 0:
                continue
            g = touched[i]
            out_tick[n], out_group[n], out_diff[n] = tick, g, decided[i]
            for a in range(A):
                t = g * A + a
                if decided[i] == 1:
                    reported[t] = truth[t]
                out_answer[n * A + a] = reported[t]
                if decided[i] == -1:
                    reported[t] = np.nan
                    truth[t] = np.nan
            n += 1
        clock[TOUCHED] = 0
        clock[TICK] += 1
    return out_tick[:n].copy(), out_group[:n].copy(), out_diff[:n].copy(), out_answer[: n * A].copy()
