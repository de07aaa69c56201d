"""The two ends apart: sites that run a batch of ticks by themselves, and a coordinator that knows their messages only.

A round (tick, phase) is what happens between two moments at which widths may change: phase 0 is the rows of the tick,
each later phase what sites send because the coordinator narrowed widths. Sites take the width changes of all rounds
with them, so that a batch is one function of state, rows and changes, and can be run again with more of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.adaptive_filter import LOOK
from deadband.runtime.kernels.filter_sites import (
    ask,
    begin,
    change_presence,
    count_message,
    find_dense,
    move_centre,
    recheck,
    set_shadows,
    take_predictions,
    take_rows,
    told,
)  # fmt: skip
from deadband.runtime.kernels.filter_state import inner

__all__ = ["ROUND", "Events", "Sent", "run_sites", "take_messages"]

ADAPTIVE, NEVER = fs.ADAPTIVE, fs.NEVER
TICK, MOVING, LOGGED = fs.TICK, fs.MOVING, fs.LOGGED
ROUND = 2**20  # more phases than a tick has: tick · ROUND + phase puts rounds in order


class Events(NamedTuple):
    """Width changes, in order of round: width NaN asks for the counts of the shadows after the tick."""

    tick: NDArray  # int64
    phase: NDArray  # int64
    filter: NDArray  # int64
    width: NDArray  # float64


class Sent(NamedTuple):
    """What sites sent, in order of round: code is the filter, or -1 - item for a change of presence."""

    tick: NDArray  # int64
    phase: NDArray  # int64
    code: NDArray  # int64
    value: NDArray  # float64
    step: NDArray  # float64
    decay: NDArray  # float64
    present: NDArray  # uint64
    alive: NDArray  # uint8
    features: NDArray  # float64[sent, F], for changes of presence
    counts: NDArray  # float64[asked, 2 + 2·shadows + 3]: tick, filter, and what `told` gives


def run_sites(wiring: fs.Wiring, state: fs.State, rows: fs.Rows, events: Events, method: int) -> Sent:
    """All ticks of the rows at the sites."""
    found = _run_sites(wiring, state, rows, *events, method)
    return Sent(*found)


@njit(cache=True, nogil=True)
def _run_sites(wiring, state, rows, event_tick, event_phase, event_filter, event_width, method):
    ticks, clock = len(rows.start) - 1, state.clock
    F, shadows = len(wiring.feature_start) - 1, state.shadow_half.shape[1]
    room, n, asked, at = 1024, 0, 0, 0
    asks = 0
    for e in range(len(event_width)):
        asks += np.isnan(event_width[e])
    tick_, phase_, code_ = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    value_, step_, decay_ = np.empty(room), np.empty(room), np.empty(room)
    present_, alive_, feature_ = np.empty(room, np.uint64), np.empty(room, np.uint8), np.empty((room, F))
    counts = np.zeros((asks, 5 + 2 * shadows))
    for tick in range(ticks):
        phase, more = 0, True
        while more:
            while at < len(event_tick) and event_tick[at] == tick and event_phase[at] == phase:
                _change(state, tick, event_filter[at], event_width[at], counts, asked)
                asked += np.isnan(event_width[at])
                at += 1
            if phase == 0:
                take_rows(wiring, state, rows, rows.start[tick], rows.start[tick + 1], method)
                if method == ADAPTIVE:
                    take_predictions(wiring, state)
            recheck(wiring, state)
            while n + clock[LOGGED] > room:
                tick_, phase_ = np.concatenate((tick_, tick_)), np.concatenate((phase_, phase_))
                code_, value_ = np.concatenate((code_, code_)), np.concatenate((value_, value_))
                step_, decay_ = np.concatenate((step_, step_)), np.concatenate((decay_, decay_))
                present_, alive_ = np.concatenate((present_, present_)), np.concatenate((alive_, alive_))
                feature_ = np.concatenate((feature_, feature_))
                room *= 2
            for k in range(clock[LOGGED]):
                code = state.log[k]
                i = -code - 1 if code < 0 else code // F
                tick_[n], phase_[n], code_[n] = tick, phase, code
                value_[n], step_[n], decay_[n] = 0.0, 0.0, 0.0
                if code >= 0:
                    value_[n], step_[n], decay_[n] = state.value[code], state.step[code], state.decay[code]
                present_[n], alive_[n] = state.present[i], state.alive[i]
                for f in range(F):
                    feature_[n, f] = state.value[i * F + f]
                n += 1
            clock[LOGGED] = 0
            phase += 1
            more = at < len(event_tick) and event_tick[at] == tick
            if more:
                phase = max(phase, event_phase[at])
        clock[TICK] += 1
        clock[fs.JOINED] = clock[fs.CHANGED] = 0
        if method == ADAPTIVE and clock[TICK] % LOOK == 0:
            find_dense(state, LOOK)
    while at < len(event_tick):  # asked for after the last tick
        _change(state, event_tick[at], event_filter[at], event_width[at], counts, asked)
        asked += np.isnan(event_width[at])
        at += 1
    return (
        tick_[:n].copy(), phase_[:n].copy(), code_[:n].copy(), value_[:n].copy(), step_[:n].copy(), decay_[:n].copy(),
        present_[:n].copy(), alive_[:n].copy(), feature_[:n].copy(), counts,
    )  # fmt: skip


@inner
def _change(state, tick, j, width, counts, asked):
    """A site takes a new width, or tells what its shadows have counted and begins to count anew."""
    if np.isnan(width):
        counts[asked, 0], counts[asked, 1] = tick, j
        counts[asked, 2:] = told(state, j)
        begin(state, j)
        return
    if width < state.width[j]:
        ask(state, j)
    state.width[j] = width
    if state.shadow_half.shape[1] and width > 0.0 and state.shadow_half[j, 0] == 0.0:
        set_shadows(state, j, width)


@njit(cache=True, nogil=True)
def take_messages(wiring, state, code, value, step, decay, present, alive, features, first):
    """One round at the coordinator; first: of its tick, when predicted centres move."""
    if first:
        kept = 0
        for k in range(state.clock[MOVING]):
            j = state.moving[k]
            if state.active[j] == 0 or state.step[j] == 0.0:
                state.dense[j] = 0
                continue
            state.moving[kept] = j
            kept += 1
            ahead = state.centre[j] + state.step[j]
            state.step[j] *= state.decay[j]
            move_centre(wiring, state, j, ahead)
            state.value[j] = state.centre[j]
        state.clock[MOVING] = kept
    for m in range(len(code)):
        if code[m] < 0:
            i = -code[m] - 1
            state.arrivals[i] += 1 if state.alive[i] != NEVER else 0
            change_presence(wiring, state, i, present[m], alive[m], features[m])
            continue
        j = code[m]
        state.value[j] = value[m]
        count_message(
            j, state.messages, state.since, state.spent, state.limit, state.need, state.component, wiring.cost,
            state.log, state.clock,
        )  # fmt: skip
        move_centre(wiring, state, j, value[m])
        state.step[j], state.decay[j] = step[m], decay[m]
        if step[m] != 0.0 and state.dense[j] == 0:
            state.dense[j] = 1
            state.moving[state.clock[MOVING]] = j
            state.clock[MOVING] += 1
    for k in range(state.clock[fs.RECHECK]):  # the sites do that themselves: what passed is among the messages
        state.in_recheck[state.recheck[k]] = 0
    state.clock[fs.RECHECK] = 0
