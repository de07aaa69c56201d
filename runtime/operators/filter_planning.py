"""When and how the coordinator plans widths: per component of filters that are tied together by answers.

New filters start with what their targets have left over (everything, at the start: uniform widths), or with the widths
that analysed history recommends. From then on shadow filters at the sites count what other widths would have sent. A
component that has sent ASK messages per filter since its last plan asks its sites for these counts (a control message
each) and pushes new widths (another each) where the saving over as long again is expected to be larger than that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from deadband.compiler.planning.adaptive_filter import Curves, allocate, grid, settle
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_live import FORGET
from deadband.runtime.kernels.filter_sites import set_widths

__all__ = ["asked", "load_of", "plan"]

PATIENCE = 8.0  # how much longer a component waits at most after plans that brought nothing


def plan(wiring: fs.Wiring, state: fs.State, history: Curves | None) -> None:
    """Answers what the kernel asked for: widths for new filters from history, and new widths where they pay."""
    now = int(state.clock[fs.TICK])
    tied = (state.active == 1) & (state.single == 0)
    fresh = tied & (state.fresh == 1)
    rich = asked(state)
    load, budget = load_of(wiring, state)
    if history is not None and fresh.any():
        for members in _components(state, tied, np.unique(state.component[fresh])):
            _start(wiring, state, history, load, budget, members)
    for members in _components(state, tied, np.unique(state.component[rich])):
        _again(wiring, state, load, budget, members, now)
    _watch(state, np.flatnonzero(tied & (state.shadow_half[:, 0] == 0)), now)
    state.fresh[:] = 0
    state.clock[fs.ASKED] = 0
    kernel.tie(wiring, state)


def asked(state: fs.State) -> NDArray:
    """Filters whose component has spent enough to ask what other widths would cost: bool[I·F]."""
    tied = (state.active == 1) & (state.single == 0)
    return tied & (state.spent[state.component] >= state.limit[state.component])


def load_of(wiring: fs.Wiring, state: fs.State) -> tuple[csr_matrix, NDArray]:
    """|w| by target and filter, of what is on, and what each target has for widths."""
    filters, targets, loads = kernel.load_edges(wiring, state)
    load = csr_matrix((loads, (targets, filters)), shape=(len(wiring.target_cell), len(state.active)))
    budget = kernel.unpadded(wiring, state)
    return load, np.where(np.isfinite(budget), budget, 0.0)


def _components(state: fs.State, tied: NDArray, roots: NDArray) -> list[NDArray]:
    """The filters of each of these components, in order."""
    if not len(roots):
        return []
    members = np.flatnonzero(tied & np.isin(state.component, roots))
    order = np.argsort(state.component[members], kind="stable")
    members = members[order]
    return np.split(members, np.flatnonzero(np.diff(state.component[members])) + 1)


def _part(load: csr_matrix, budget: NDArray, members: NDArray) -> tuple[csr_matrix, NDArray]:
    """The targets of one component."""
    mine = load[:, members]
    used = np.flatnonzero(np.diff(mine.indptr))
    return mine[used], budget[used]


def _start(
    wiring: fs.Wiring, state: fs.State, history: Curves, load: csr_matrix, budget: NDArray, members: NDArray
) -> None:
    """Widths that analysed history recommends; filters it does not know are taken to be like the others."""
    curves = history.of(members)
    part, room = _part(load, budget, members)
    set_widths(wiring, state, members, allocate(curves, wiring.cost[members], part, room))


def _again(wiring: fs.Wiring, state: fs.State, load: csr_matrix, budget: NDArray, members: NDArray, now: int) -> None:
    """New widths from what the shadows have counted, if they pay."""
    part, room = _part(load, budget, members)
    cost, current = wiring.cost[members], state.width[members]
    state.control[members] += 1
    curves = _counted(state, members, now)
    wanted = allocate(curves, cost, part, room)
    ticks = now - int(state.planned[members].max())
    chosen = settle(current, wanted, curves, cost, part, room, control_cost=1.0, horizon_ticks=ticks)
    gained = (chosen != current).any()
    set_widths(wiring, state, members, chosen)
    state.patience[members] = 1.0 if gained else np.minimum(2.0 * np.maximum(state.patience[members], 1.0), PATIENCE)
    state.planned[members] = now
    state.since[members] = 0
    state.shadow_count[members] *= FORGET
    state.shadow_since[members] = now - ((now - state.shadow_since[members]) * FORGET).astype(np.int64)
    half = state.shadow_half[members]
    off = (chosen / 2 < half[:, 2]) | (chosen / 2 > half[:, -3])
    _watch(state, members[off & (chosen > 0)], now)


def _counted(state: fs.State, members: NDArray, now: int) -> Curves:
    """The cost curves of the shadows, scaled to the predictor that each filter uses."""
    ticks = np.maximum(now - state.shadow_since[members], 1)
    rate = state.shadow_count[members] / ticks[:, None]
    updates = np.minimum(state.values[members] / max(now, 1), 1.0)
    curves = Curves(2.0 * state.shadow_half[members], rate, np.maximum(updates, rate[:, 0]))
    plain = state.rival_count[members, 0]
    mine = state.rival_count[members, state.predictor[members]]
    scale = np.where(plain >= 20, np.minimum(mine / np.maximum(plain, 1.0), 1.0), 1.0)
    return Curves(
        curves.width, curves.rate * scale[:, None], np.maximum(curves.update_rate, (rate * scale[:, None])[:, 0])
    )


def _watch(state: fs.State, filters: NDArray, now: int) -> None:
    """Shadows around the present widths, counting from here."""
    state.shadow_half[filters] = grid(state.width[filters], state.shadow_half.shape[1]) / 2
    state.shadow_centre[filters] = state.value[filters][:, None]
    state.shadow_count[filters] = 0.0
    state.shadow_since[filters] = now
