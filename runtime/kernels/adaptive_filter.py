"""Sites with filters and their coordinator in one loop: intervals for many answers over shared items.

Law. A filter j (item, feature) keeps a centre that both ends know and a width; its site sends a value only when it is
farther than width/2 from the centre, which then moves there. After a tick, for every target t (an affine sum over
filters) truth lies in [mid - half, mid + half], mid = Σ w·centre, half = Σ|w|·width / 2 plus rounding, and 2·half is
within the target's bound. A filter whose width shrank is applied again to the value its site has. When an answer's
bound itself moves (percent, the count of an AVG, a member that left), the coordinator narrows widths in rounds within
the tick until all bounds hold. Widths that were planned are in force from the next tick on, all at once.

A slot is a feature's value (value slots) or 1 (flag slots) while the features it needs are not NULL and the item is
alive; both ends know which slots are on, since a change of that is always sent. A cell is one answer of one group: a
sum over one target, or MIN/MAX over the targets that compete in it. Sums are exact pairs, as in emit_on_drift.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_bounds import DEFLATE, INFLATE, budgets, interval, load_edges, narrow, unpadded
from deadband.runtime.kernels.filter_reference import PERIOD, reference
from deadband.runtime.kernels.filter_sites import ask, find_dense, recheck, take_predictions, take_rows, widen
from deadband.runtime.kernels.filter_state import Emitted, Rows, State, Wiring, inner

__all__ = [
    "ASK", "LOOK", "PERIOD", "after", "emitted", "members", "narrow", "no_reports", "report", "run",
    "settle", "sum_anew", "tie", "touch_all",
]  # fmt: skip

ADAPTIVE, REFERENCE, UNIFORM = fs.ADAPTIVE, fs.REFERENCE, fs.UNIFORM
ALIVE, ROWS_TOTAL, COUNT_TOTAL = fs.ALIVE, fs.ROWS_TOTAL, fs.COUNT_TOTAL
TICK, TARGETS, GROUPS = fs.TICK, fs.TARGETS, fs.GROUPS
JOINED, CHANGED, ASKED = fs.JOINED, fs.CHANGED, fs.ASKED

LOOK = 64  # ticks between two looks at which filters are updated often enough for predictors
SAME = 1.0 - 2.0**-42  # what rounding allowances that grow with the values may take from a width
GREW = 1.1  # uniform widths of percent bounds are pushed again when they could be this much wider
MUCH = 2.0  # tied filters grow in step when they could be this much wider
ASK = 8.0  # messages per filter that sends before statistics are asked for the first time


def run(wiring: Wiring, state: State, rows: Rows, first: int, method: int) -> tuple[int, bool, Emitted]:
    """Applies ticks from `first` on, in place, to the last or until a plan is asked for: next tick, asked, reports."""
    done, asked, out = _run(wiring, state, rows, first, method)
    return done, asked, emitted(out)


@inner
def _totals(targets, loads, count):
    total = np.zeros(count)
    for e in range(len(targets)):
        total[targets[e]] += loads[e]
    return total


@inner
def _least(filters, targets, room, total, count):
    """What the targets of each filter have for it at least: room shared by total; 0 for filters that are off."""
    least = np.full(count, np.inf)
    for e in range(len(filters)):
        t = targets[e]
        least[filters[e]] = min(least[filters[e]], max(room[t], 0.0) / total[t])
    for j in range(count):
        least[j] = 0.0 if np.isinf(least[j]) else least[j] * DEFLATE
    return least


@inner
def _uniform(wiring, state, growth):
    """Every target gives its filters the same width; changes below `growth` are not worth a message."""
    filters, targets, loads = load_edges(wiring, state)
    total = _totals(targets, loads, len(wiring.target_cell))
    least = _least(filters, targets, unpadded(wiring, state), total, len(state.active))
    for j in range(len(state.active)):
        new, old = least[j], state.width[j]
        if state.active[j] == 0 or old * SAME <= new <= old * max(growth, 2.0 - SAME):
            continue
        if state.fresh[j] == 0:
            state.control[j] += 1
        widen(wiring, state, j, new)
        if new < old:
            ask(state, j)


@inner
def _regrow(wiring, state, growth, only_single):
    """Filters alone in their targets take all there is; others grow in step where all their targets have much left.

    Only what could be `growth` times as wide is worth a message; the reference method regrows the others by itself.
    """
    filters, targets, loads = load_edges(wiring, state)
    room = unpadded(wiring, state)
    total = _totals(targets, loads, len(room))
    least = _least(filters, targets, room, total, len(state.active))
    factor, empty = np.full(len(state.active), np.inf), np.ones(len(state.active), np.uint8)
    used = np.zeros(len(room))
    for e in range(len(filters)):
        used[targets[e]] += loads[e] * state.width[filters[e]]
    moves = np.zeros(len(state.active), np.uint8)  # 1: a bound of it moves by itself
    for e in range(len(filters)):
        j, t = filters[e], targets[e]
        moves[j] |= wiring.cell_percent[wiring.target_cell[t]]
        if used[t] > 0.0:
            factor[j] = min(factor[j], room[t] / used[t])
            empty[j] = 0
    for j in range(len(state.active)):
        if state.active[j] == 0 or (only_single and state.single[j] == 0) or (growth > 1.0 and moves[j] == 0):
            continue
        old = state.width[j]
        new = least[j] if state.single[j] == 1 or empty[j] == 1 else old * factor[j] * DEFLATE
        much = growth if state.single[j] == 1 else MUCH
        if new > old * much and new > 0.0:
            state.control[j] += 1 - state.fresh[j]
            widen(wiring, state, j, new)


@inner
def _admit(wiring, state):
    """Filters that came in this tick share what their targets have left over, at most what uniform widths are."""
    filters, targets, loads = load_edges(wiring, state)
    room = unpadded(wiring, state)
    total = _totals(targets, loads, len(room))
    most = _least(filters, targets, room, total, len(state.active))
    new = np.zeros(len(state.active), np.uint8)
    for k in range(state.clock[JOINED]):
        new[state.joined[k]] = 1
    for e in range(len(filters)):
        loads[e] = loads[e] if new[filters[e]] == 1 else 0.0
    free = budgets(wiring, state)
    for t in range(len(room)):
        room[t] = free[t] - (state.spread[t] + state.spread_low[t]) * INFLATE
    left = _least(filters, targets, room, np.maximum(_totals(targets, loads, len(room)), 1e-300), len(state.active))
    for k in range(state.clock[JOINED]):
        j = state.joined[k]
        if state.active[j] == 1 and state.width[j] == 0.0:
            widen(wiring, state, j, min(most[j], left[j]))


@njit(cache=True, nogil=True)
def tie(wiring, state):
    """Which filters are tied together by targets, and which are alone in theirs; what they have sent, by component."""
    filters, targets, _ = load_edges(wiring, state)
    count = len(state.active)
    parent = np.arange(count)
    first, members = np.full(len(wiring.target_cell), -1), np.zeros(len(wiring.target_cell), np.int64)
    for e in range(len(filters)):
        t, a = targets[e], filters[e]
        if first[t] < 0:
            first[t] = a
            members[t] = 1
            continue
        if first[t] != a:
            members[t] += 1
        b = first[t]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    state.single[:] = 1
    for e in range(len(filters)):
        if members[targets[e]] > 1:
            state.single[filters[e]] = 0
    state.spent[:] = 0.0
    state.limit[:] = np.inf
    need, tied = np.zeros(count), np.zeros(count, np.uint8)
    for j in range(count):
        root = j
        while parent[root] != root:
            root = parent[root]
        state.component[j] = root
        if state.active[j] == 1 and state.single[j] == 0:
            tied[root] = 1
            need[root] = max(need[root], state.need[j] if state.need[j] > 0.0 else ASK)
    for j in range(count):
        root = state.component[j]
        if state.active[j] == 1 and state.single[j] == 0:
            state.need[j] = need[root]
            state.limit[root] = wiring.floor[0] if np.isinf(state.limit[root]) else state.limit[root]
            state.spent[root] += wiring.cost[j] * state.since[j]
            state.limit[root] += need[root] * wiring.cost[j] if state.since[j] > 0 else 0.0
    for j in range(count):
        if tied[j] == 1:
            state.need[j] = need[j]


@njit(cache=True, nogil=True)
def touch_all(state):
    """Every target and group is looked at in the next tick, whether or not its filters send."""
    for t in range(len(state.is_target)):
        state.is_target[t] = 1
        state.targets[t] = t
    for g in range(len(state.is_group)):
        state.is_group[g] = 1
        state.groups[g] = g
    state.clock[TARGETS], state.clock[GROUPS] = len(state.is_target), len(state.is_group)


@njit(cache=True, nogil=True)
def sum_anew(wiring, state):
    """Totals and spreads from what both ends know of the filters, for weights that have changed."""
    F, V, K = len(wiring.feature_start) - 1, len(wiring.value_feature), len(wiring.flag_needs)
    for total in (state.high, state.low, state.spread, state.spread_low, state.size, state.count, state.rows):
        total[:] = 0.0
    state.ceiling[:] = 0.0  # of slots that are off, too: size no longer has them
    was = state.active.copy()
    state.active[:] = 0
    for i in range(len(state.alive)):
        if state.alive[i] != ALIVE:
            continue
        present = state.present[i]
        for v in range(V):
            s, j = i * V + v, i * F + wiring.value_feature[v]
            if wiring.value_needs[v] & ~present != 0:
                continue
            if was[j] == 0:
                state.centre[j] = state.value[j]  # it joins with the value its site has
            state.ceiling[s] = max(state.ceiling[s], 2.0 * abs(state.centre[j]) + state.width[j])
            for e in range(wiring.value_start[s], wiring.value_start[s + 1]):
                t = wiring.value_target[e]
                _plus(state.high, state.low, t, wiring.value_weight[e] * state.centre[j])
                _plus(state.spread, state.spread_low, t, wiring.value_load[e] * (state.width[j] + wiring.pad[j]))
                state.size[t] += wiring.value_load[e] * state.ceiling[s]
                state.active[j] = 1
        for k in range(K):
            if wiring.flag_needs[k] & ~present != 0:
                continue
            for e in range(wiring.flag_start[i * K + k], wiring.flag_start[i * K + k + 1]):
                t, weight = wiring.flag_target[e], wiring.flag_weight[e]
                if wiring.flag_total[e] == ROWS_TOTAL:
                    state.rows[t] += weight
                elif wiring.flag_total[e] == COUNT_TOTAL:
                    state.count[t] += weight
                else:
                    _plus(state.high, state.low, t, weight)
                    state.size[t] += abs(weight)
    state.clock[CHANGED] = 1


@inner
def _plus(high, low, at, amount):
    a = high[at]
    s = a + amount
    b = s - a
    low[at] += (a - (s - b)) + (amount - b)
    high[at] = s


@inner
def _look(wiring, state, g, low, high):
    """The intervals of a group, and what to report: 1 an answer, -1 that it vanished, 0 nothing."""
    first, last = wiring.group_start[g], wiring.group_start[g + 1]
    if not (state.rows[g] > 0 or wiring.group_always[g] == 1):
        return -1 if state.group_alive[g] == 1 else 0
    found = 0 if state.group_alive[g] == 1 else 1
    for cell in range(first, last):
        low[cell - first], high[cell - first] = interval(wiring, state, cell)
        before, after = state.reported_low[cell], low[cell - first]
        if np.isnan(before) or np.isnan(after):
            found = found if np.isnan(before) and np.isnan(after) else 1
            continue
        # what was reported still holds while it contains what is known, and is no wider than it was promised
        inside = before <= after and high[cell - first] <= state.reported_high[cell]
        if not inside or not _within(wiring, cell, before, state.reported_high[cell]):
            found = 1
        if not _within(wiring, cell, after, high[cell - first]):
            state.wide[g] += 1
    return found


@inner
def _within(wiring, cell, low, high):
    bound = wiring.cell_bound[cell]
    if wiring.cell_percent[cell] == 1:
        bound *= min(abs(low), abs(high))
        if low < 0.0 < high:
            return False
    return high - low <= bound * INFLATE


@njit(cache=True, nogil=True)
def settle(state):
    """Low parts below one rounding of the high parts, so that they themselves lose little."""
    for k in range(state.clock[TARGETS]):
        t = state.targets[k]
        for high, low in ((state.high, state.low), (state.spread, state.spread_low)):
            settled = high[t] + low[t]
            low[t] -= settled - high[t]
            high[t] = settled


@inner
def _tick(wiring, state, rows, tick, method):
    """Sites, coordinator, and rounds between them until every bound holds."""
    take_rows(wiring, state, rows, rows.start[tick], rows.start[tick + 1], method)
    if method == ADAPTIVE:
        take_predictions(wiring, state)
    recheck(wiring, state)
    members(wiring, state, method)
    recheck(wiring, state)
    attempt = 0
    while narrow(wiring, state, attempt):
        recheck(wiring, state)
        settle(state)
        attempt += 1


@njit(cache=True, nogil=True)
def members(wiring, state, method):
    """Widths for filters that came or after some went, as far as their method gives them at once."""
    settle(state)
    changed = state.clock[CHANGED] == 1
    state.clock[CHANGED] = 0
    if changed and method == UNIFORM:
        _uniform(wiring, state, 1.0)
    elif state.clock[JOINED] > 0 and method in (ADAPTIVE, REFERENCE):
        _admit(wiring, state)
    if changed and method in (ADAPTIVE, REFERENCE):
        tie(wiring, state)
        _regrow(wiring, state, 1.0, True)


@njit(cache=True, nogil=True)
def after(wiring, state, method, percents):
    """What happens between this tick and the next; true when a plan is asked for."""
    clock = state.clock
    joined = clock[JOINED]
    clock[JOINED] = 0
    clock[TICK] += 1
    asked = False
    if method == ADAPTIVE:
        if clock[TICK] % LOOK == 0:
            find_dense(state, LOOK)
        asked = joined > 0 or (clock[ASKED] == 1 and clock[TICK] % PERIOD == 0)
    if not asked:
        _seasoned(state, joined)
    if clock[TICK] % PERIOD == 0:
        if method == REFERENCE:
            reference(wiring, state)
        elif method == UNIFORM and percents:
            _uniform(wiring, state, GREW)
        if percents and method in (ADAPTIVE, REFERENCE):
            _regrow(wiring, state, GREW, method == REFERENCE)
    return asked


@inner
def _seasoned(state, joined):
    """From now on a new width of these filters costs a message."""
    for k in range(joined):
        state.fresh[state.joined[k]] = 0


@njit(cache=True, nogil=True)
def report(wiring, state, tick, out_tick, out_group, out_diff, out_start, out_low, out_high):
    """Appends what this tick reports; the arrays come back, larger where they had no room. out_start[0] counts them."""
    clock = state.clock
    widest = 1
    for k in range(clock[GROUPS]):
        g = state.groups[k]
        widest = max(widest, wiring.group_start[g + 1] - wiring.group_start[g])
    low, high = np.empty(widest), np.empty(widest)
    n = out_start[0]
    for k in range(clock[GROUPS]):
        g = state.groups[k]
        state.is_group[g] = 0
        diff = _look(wiring, state, g, low, high)
        if diff == 0:
            continue
        first, count = wiring.group_start[g], wiring.group_start[g + 1] - wiring.group_start[g]
        if n == len(out_tick):
            out_tick = np.concatenate((out_tick, np.empty(n, np.int64)))
            out_group = np.concatenate((out_group, np.empty(n, np.int32)))
            out_diff = np.concatenate((out_diff, np.empty(n, np.int8)))
            out_start = np.concatenate((out_start, np.zeros(n, np.int64)))
        if out_start[n + 1] + count > len(out_low):
            more = len(out_low) + count
            out_low, out_high = np.concatenate((out_low, np.empty(more))), np.concatenate((out_high, np.empty(more)))
        out_tick[n], out_group[n], out_diff[n] = tick, g, diff
        state.reports[g] += 1 if diff == 1 and state.group_alive[g] == 1 else 0
        for c in range(count):
            cell, at = first + c, out_start[n + 1] + c
            if diff == 1:
                state.reported_low[cell], state.reported_high[cell] = low[c], high[c]
            out_low[at], out_high[at] = state.reported_low[cell], state.reported_high[cell]
            if diff == -1:
                state.reported_low[cell] = state.reported_high[cell] = np.nan
        state.group_alive[g] = 1 if diff == 1 else 0
        n += 1
        out_start[n + 1] = out_start[n] + count
    for k in range(clock[TARGETS]):
        state.is_target[state.targets[k]] = 0
    clock[TARGETS] = clock[GROUPS] = 0
    out_start[0] = n
    return out_tick, out_group, out_diff, out_start, out_low, out_high


@njit(cache=True, nogil=True)
def no_reports():
    """What `report` appends to."""
    return (
        np.empty(1024, np.int64), np.empty(1024, np.int32), np.empty(1024, np.int8), np.zeros(1026, np.int64),
        np.empty(1024), np.empty(1024),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _run(wiring, state, rows, first, method):
    ticks = len(rows.start) - 1
    percents = wiring.cell_percent.sum() > 0
    out = no_reports()
    tick, asked = first, False
    while tick < ticks and not asked:
        _tick(wiring, state, rows, tick, method)
        out = report(wiring, state, tick, *out)
        tick += 1
        asked = after(wiring, state, method, percents)
    return tick, asked, out


def emitted(out: tuple) -> Emitted:
    """What `report` collected: its arrays cut to what they hold."""
    tick, group, diff, start, low, high = out
    n = start[0]
    return Emitted(tick[:n], group[:n], diff[:n], start[1 : n + 2], low[: start[n + 1]], high[: start[n + 1]])
