"""What sites do with their filters, and what a message changes at both ends; adaptive_filter.py has the law."""

from __future__ import annotations

import numpy as np
from numba import njit

from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.cost_curves import LAST, learn, pick, resend, watch, watch_predictors
from deadband.runtime.kernels.filter_state import inner

__all__ = [
    "RATIO", "ask", "begin", "change_presence", "count_message", "find_dense", "move_centre", "recheck", "set_shadows",
    "set_widths", "take_predictions", "take_rows", "told", "widen",
]  # fmt: skip

ROWS_TOTAL, COUNT_TOTAL, SUM_TOTAL = fs.ROWS_TOTAL, fs.COUNT_TOTAL, fs.SUM_TOTAL
ADAPTIVE, NONE = fs.ADAPTIVE, fs.NONE
NEVER, ALIVE, DEAD = fs.NEVER, fs.ALIVE, fs.DEAD
TICK, TARGETS, GROUPS, MOVING, RECHECK = fs.TICK, fs.TARGETS, fs.GROUPS, fs.MOVING, fs.RECHECK
JOINED, CHANGED, ASKED, LOGGED = fs.JOINED, fs.CHANGED, fs.ASKED, fs.LOGGED
RATIO = 1.7  # from one shadow width to the next
DENSE = 0.5  # share of the ticks with a value from which on predictors are run


@inner
def _add(high, low, at, amount, rest):
    """high + low += amount + rest, without losing what rounding cuts off."""
    a = high[at]
    s = a + amount
    b = s - a
    low[at] += (a - (s - b)) + (amount - b) + rest
    high[at] = s


@inner
def _move(first, last, target, weight, new, old, high, low):
    """The targets of one slot go from weight·old to weight·new, exactly."""
    for e in range(first, last):
        plus, minus = weight[e] * new, -(weight[e] * old)
        total = plus + minus
        part = total - plus
        _add(high, low, target[e], total, (plus - (total - part)) + (minus - part))


@inner
def _touch(first, last, target, group, targets, is_target, groups, is_group, clock):
    for e in range(first, last):
        t = target[e]
        if is_target[t] == 0:
            is_target[t] = 1
            targets[clock[TARGETS]] = t
            clock[TARGETS] += 1
            g = group[t]
            if is_group[g] == 0:
                is_group[g] = 1
                groups[clock[GROUPS]] = g
                clock[GROUPS] += 1


@inner
def move_centre(wiring, state, j, new):
    """The centre of filter j moves to a value, at both ends; the sums of its targets follow."""
    F, V = len(wiring.feature_start) - 1, len(wiring.value_feature)
    i, f = j // F, j % F
    start, target, weight, load = wiring.value_start, wiring.value_target, wiring.value_weight, wiring.value_load
    present, ceiling, size = state.present[i], state.ceiling, state.size
    old = state.centre[j]
    for at in range(wiring.feature_start[f], wiring.feature_start[f + 1]):
        v = wiring.feature_slot[at]
        if wiring.value_needs[v] & ~present != 0:
            continue
        s = i * V + v
        first, last = start[s], start[s + 1]
        if abs(new) > ceiling[s]:
            above = _power_above(abs(new))
            for e in range(first, last):
                size[target[e]] += load[e] * (above - ceiling[s])
            ceiling[s] = above
        _move(first, last, target, weight, new, old, state.high, state.low)
        _touch(
            first, last, target, wiring.target_group,
            state.targets, state.is_target, state.groups, state.is_group, state.clock,
        )  # fmt: skip
    state.centre[j] = new


@inner
def _power_above(size):
    above = 2.0 ** np.ceil(np.log2(size))
    return above * 2.0 if above < size else above


@inner
def widen(wiring, state, j, new):
    """The width of filter j changes at both ends; the spreads of its targets follow."""
    F, V = len(wiring.feature_start) - 1, len(wiring.value_feature)
    i, f = j // F, j % F
    old, present, pad = state.width[j], state.present[i], wiring.pad[j]
    for at in range(wiring.feature_start[f], wiring.feature_start[f + 1]):
        v = wiring.feature_slot[at]
        if state.alive[i] == ALIVE and wiring.value_needs[v] & ~present == 0:
            first, last = wiring.value_start[i * V + v], wiring.value_start[i * V + v + 1]
            _move(
                first, last, wiring.value_target, wiring.value_load,
                new + pad, old + pad, state.spread, state.spread_low,
            )  # fmt: skip
            _touch(
                first, last, wiring.value_target, wiring.target_group,
                state.targets, state.is_target, state.groups, state.is_group, state.clock,
            )  # fmt: skip
    state.width[j] = new
    if new > 0.0 and state.shadow_half.shape[1] and state.shadow_half[j, 0] == 0.0:
        set_shadows(state, j, new)


@inner
def ask(state, j):
    """The site of filter j will apply it again, because its width shrank."""
    if state.in_recheck[j] == 0:
        state.in_recheck[j] = 1
        state.recheck[state.clock[RECHECK]] = j
        state.clock[RECHECK] += 1


@njit(cache=True, nogil=True)
def set_widths(wiring, state, filters, widths):
    """Pushes widths to sites between two ticks; each costs a control message unless it is the filter's first."""
    for k in range(len(filters)):
        j = filters[k]
        if widths[k] == state.width[j]:
            continue
        if state.fresh[j] == 0:
            state.control[j] += 1
        if widths[k] < state.width[j]:
            ask(state, j)
        widen(wiring, state, j, widths[k])


@inner
def change_presence(wiring, state, i, present, alive, feature):
    """An item comes, goes, or changes which of its features are NULL: sent at once, with all its values."""
    F, V, K = len(wiring.feature_start) - 1, len(wiring.value_feature), len(wiring.flag_needs)
    clock = state.clock
    was, is_on = state.alive[i] == ALIVE, alive == ALIVE
    before = state.present[i]
    for k in range(K):
        needs = wiring.flag_needs[k]
        on, off = is_on and needs & ~present == 0, was and needs & ~before == 0
        if on == off:
            continue
        for e in range(wiring.flag_start[i * K + k], wiring.flag_start[i * K + k + 1]):
            t = wiring.flag_target[e]
            change = wiring.flag_weight[e] if on else -wiring.flag_weight[e]
            if wiring.flag_total[e] == ROWS_TOTAL:
                state.rows[t] += change
                if state.is_group[t] == 0:
                    state.is_group[t] = 1
                    state.groups[clock[GROUPS]] = t
                    clock[GROUPS] += 1
                continue
            if wiring.flag_total[e] == COUNT_TOTAL:
                state.count[t] += change
            else:
                _add(state.high, state.low, t, change, 0.0)
                state.size[t] += abs(change) if on else 0.0
            _touch(
                e, e + 1, wiring.flag_target, wiring.target_group,
                state.targets, state.is_target, state.groups, state.is_group, clock,
            )  # fmt: skip
    for f in range(F):
        j = i * F + f
        new, old, width = feature[f], state.centre[j], state.width[j] + wiring.pad[j]
        stays = False
        for at in range(wiring.feature_start[f], wiring.feature_start[f + 1]):
            v = wiring.feature_slot[at]
            s = i * V + v
            first, last = wiring.value_start[s], wiring.value_start[s + 1]
            on = is_on and wiring.value_needs[v] & ~present == 0
            off = was and wiring.value_needs[v] & ~before == 0
            if on and abs(new) > state.ceiling[s]:
                above = _power_above(abs(new))
                for e in range(first, last):
                    state.size[wiring.value_target[e]] += wiring.value_load[e] * (above - state.ceiling[s])
                state.ceiling[s] = above
            if on or off:
                _move(
                    first, last, wiring.value_target, wiring.value_weight,
                    new if on else 0.0, old if off else 0.0, state.high, state.low,
                )  # fmt: skip
                _touch(
                    first, last, wiring.value_target, wiring.target_group,
                    state.targets, state.is_target, state.groups, state.is_group, clock,
                )  # fmt: skip
            if on != off:
                _move(
                    first, last, wiring.value_target, wiring.value_load,
                    width if on else 0.0, width if off else 0.0, state.spread, state.spread_low,
                )  # fmt: skip
            stays |= on and first < last
        if is_on and (present >> np.uint64(f)) & np.uint64(1):
            state.centre[j] = state.value[j] = new
            state.shadow_centre[j, :] = new
        state.step[j] = 0.0
        if not stays:
            state.width[j] = 0.0
            state.dense[j] = 0
        elif state.active[j] == 0:
            state.fresh[j] = 1
            state.joined[clock[JOINED]] = j
            clock[JOINED] += 1
        if stays != (state.active[j] == 1):
            clock[CHANGED] = 1
        state.active[j] = 1 if stays else 0
    state.present[i], state.alive[i] = present, alive


@inner
def count_message(j, messages, since, spent, limit, need, component, cost, log, clock):
    """A value is sent; its component asks for a plan once it has spent enough."""
    if len(log):
        log[clock[LOGGED]] = j
        clock[LOGGED] += 1
    messages[j] += 1
    c = component[j]
    if since[j] == 0:
        limit[c] += need[c] * cost[j]
    since[j] += 1
    spent[c] += cost[j]
    if spent[c] >= limit[c]:
        clock[ASKED] = 1


@inner
def take_rows(wiring, state, rows, first_row, last_row, method):
    """The sites take their rows: what passes a filter is sent."""
    F = len(wiring.feature_start) - 1
    shadows = method == ADAPTIVE
    value, centre, width, active = state.value, state.centre, state.width, state.active
    shadow_half, shadow_centre, shadow_count = state.shadow_half, state.shadow_centre, state.shadow_count
    present, alive, single = state.present, state.alive, state.single
    messages, since, spent, component, cost = state.messages, state.since, state.spent, state.component, wiring.cost
    limit, need = state.limit, state.need
    updates, seen, dense, values, changes = state.shadow_updates, state.seen, state.dense, state.values, state.changes
    items, presents, deleted, features = rows.item, rows.present, rows.deleted, rows.feature
    for r in range(first_row, last_row):
        i = np.int64(items[r])
        now = DEAD if deleted[r] == 1 else ALIVE
        mask = presents[r] if now == ALIVE else np.uint64(0)
        changes[i] += 1
        if now != alive[i] or mask != present[i]:
            if now == DEAD and alive[i] != ALIVE:
                alive[i] = DEAD
                continue
            state.arrivals[i] += 1 if alive[i] != NEVER else 0
            if len(state.log):
                state.log[state.clock[LOGGED]] = -i - 1
                state.clock[LOGGED] += 1
            change_presence(wiring, state, i, mask, now, features[r])
            continue
        if now == DEAD:
            continue
        for f in range(F):
            j = i * F + f
            x = features[r, f]
            moved = x != value[j]
            value[j] = x
            if active[j] == 0:
                continue
            values[j] += 1
            seen[j] += 1
            if shadows and moved and single[j] == 0:
                updates[j] += 1.0
                watch(x, j, shadow_centre, shadow_half, shadow_count)
            if dense[j] == 0 and (abs(x - centre[j]) > 0.5 * width[j] or method == NONE):
                count_message(j, messages, since, spent, limit, need, component, cost, state.log, state.clock)
                move_centre(wiring, state, j, x)


@inner
def take_predictions(wiring, state):
    """A tick of the filters that are updated at most ticks: they learn, predict, and are checked with or without a row.

    A message carries value, step and decay, so that a site may change its predictor whenever its shadows say so.
    """
    kept = 0
    for k in range(state.clock[MOVING]):
        j = state.moving[k]
        if state.active[j] == 0 or state.dense[j] == 0:
            state.dense[j] = 0
            continue
        state.moving[kept] = j
        kept += 1
        x = state.value[j]
        learn(x, j, state.site)
        watch_predictors(
            x, j, 0.5 * state.width[j],
            state.rival_centre, state.rival_step, state.rival_decay, state.rival_count, state.site,
        )  # fmt: skip
        if state.step[j] != 0.0:
            ahead = state.centre[j] + state.step[j]
            state.step[j] *= state.decay[j]
            move_centre(wiring, state, j, ahead)
        if abs(x - state.centre[j]) > 0.5 * state.width[j]:  # a call with all of state takes longer than the rest
            _check(wiring, state, j)
    state.clock[MOVING] = kept


@inner
def _check(wiring, state, j):
    """A site applies its filter to the value it has; what passes is sent, with the prediction from here on."""
    x = state.value[j]
    if state.active[j] == 0 or abs(x - state.centre[j]) <= 0.5 * state.width[j]:
        return
    count_message(
        j, state.messages, state.since, state.spent, state.limit, state.need, state.component, wiring.cost, state.log,
        state.clock,
    )  # fmt: skip
    if state.dense[j] == 1:
        now = pick(state.predictor[j], state.rival_count[j])
        if now != state.predictor[j]:
            state.predictor[j] = now
            state.rival_count[j, :] = 0.0
        state.step[j], state.decay[j] = resend(x, j, now, state.site)
    move_centre(wiring, state, j, x)


@inner
def find_dense(state, ticks):
    """Filters that got values at most of the last ticks run predictors; the others' centres stand still."""
    for j in range(len(state.active)):
        dense = state.active[j] == 1 and state.seen[j] >= DENSE * ticks
        if dense and state.dense[j] == 0:
            state.dense[j] = 1
            state.predictor[j] = LAST
            state.site[j, :] = 0.0
            state.rival_centre[j, :] = state.value[j]
            state.rival_step[j, :] = 0.0
            state.rival_count[j, :] = 0.0
            state.moving[state.clock[MOVING]] = j
            state.clock[MOVING] += 1
        elif not dense and state.dense[j] == 1:
            state.step[j] = 0.0  # take_predictions drops it from the list
            state.dense[j] = 0
        state.seen[j] = 0


@inner
def recheck(wiring, state):
    for k in range(state.clock[RECHECK]):
        j = state.recheck[k]
        state.in_recheck[j] = 0
        _check(wiring, state, j)
    state.clock[RECHECK] = 0


@njit(cache=True, nogil=True)
def told(state, j):
    """What the shadows of filter j have counted: half widths, counts, changes, ticks, and what its predictor saves."""
    shadows = state.shadow_half.shape[1]
    found = np.empty(3 + 2 * shadows)
    found[:shadows] = state.shadow_half[j]
    found[shadows : 2 * shadows] = state.shadow_count[j]
    found[2 * shadows] = state.shadow_updates[j]
    found[2 * shadows + 1] = max(state.clock[TICK] - state.shadow_since[j], 1)
    plain = state.rival_count[j, LAST] + 5.0
    found[2 * shadows + 2] = min((state.rival_count[j, state.predictor[j]] + 5.0) / plain, 1.0)
    return found


@njit(cache=True, nogil=True)
def begin(state, j):
    """The shadows of filter j count from here."""
    state.shadow_count[j, :] = 0.0
    state.shadow_updates[j] = 0.0
    state.shadow_since[j] = state.clock[TICK]


@njit(cache=True, nogil=True)
def set_shadows(state, j, width):
    """Shadows around a width, counting from here."""
    shadows = state.shadow_half.shape[1]
    for k in range(shadows):
        state.shadow_half[j, k] = 0.5 * width * RATIO ** (k - (shadows - 1) / 2)
    state.shadow_centre[j, :] = state.value[j]
    begin(state, j)
