"""When and how the coordinator plans widths: per component of filters that are tied together by answers.

New filters start with what their targets have left over (everything, at the start: uniform widths), or with the widths
that analysed history recommends. From then on shadow filters at the sites count what other widths would have sent.
Every few messages per filter the coordinator asks for these counts (a control message each) and plans. A plan is
trusted as far as plans before it would have paid: each is scored, blended with uniform widths, on the counts that come
after it. Widths are pushed (a control message each) only where they pay.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from deadband.compiler.planning.adaptive_filter import allocate, settle, uniform
from deadband.compiler.planning.cost_curves import (
    BLENDS,
    GRID,
    QUARTERS,
    Curves,
    History,
    blend_costs,
    blended,
    expected,
    grid,
    smoothed,
)
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_bounds import load_edges, unpadded
from deadband.runtime.kernels.filter_sites import RATIO, begin, set_widths, told

__all__ = ["asked", "load_of", "plan"]

SPACING = 50.0  # messages per filter that sends, between two plans in the long run: asking costs at most 2 %
FORGET = 0.8  # share of what was counted and scored before that stays at each plan
TRUST = 0.75  # share of the first plan, before any was scored
HORIZON = 3.0  # times the ticks since the last plan in which a push must pay
QUIET = 0.01  # expected saving below which a component waits longer before it plans again
LONGEST = 16.0
SMALL = 64  # filters of a component below which many are planned together
GATE = 4.0  # messages per filter that a first plan must be expected to save before anybody is asked

Told = Callable[[NDArray], NDArray]  # filters -> what their shadows have counted, as `told` gives it


def plan(wiring: fs.Wiring, state: fs.State, history: Curves | None, tell: Told | None = None) -> None:
    """Answers what the kernel asked for: widths for new filters from history, and new widths where they pay."""
    tied = (state.active == 1) & (state.single == 0)
    fresh, rich = tied & (state.fresh == 1), asked(state)
    if fresh.any() or rich.any():
        load, budget = load_of(wiring, state)
        if history is not None:
            _start(wiring, state, history, load, budget, _components(state, tied, np.unique(state.component[fresh])))
        for members in _components(state, tied, np.unique(state.component[rich])):
            _again(wiring, state, *_part(load, budget, members), members, tell or (lambda j: _counted(state, j)))
    state.fresh[:] = 0
    state.clock[fs.ASKED] = 0
    kernel.tie(wiring, state)


def asked(state: fs.State) -> NDArray:
    """Filters whose component has sent enough, and could save enough, to ask what other widths would cost."""
    tied = (state.active == 1) & (state.single == 0)
    root = state.component
    return tied & (state.spent[root] > 0) & (state.spent[root] >= state.limit[root])


def load_of(wiring: fs.Wiring, state: fs.State) -> tuple[csr_matrix, NDArray]:
    """|w| by target and filter, of what is on, and what each target has for widths."""
    filters, targets, loads = load_edges(wiring, state)
    load = csr_matrix((loads, (targets, filters)), shape=(len(wiring.target_cell), len(state.active)))
    budget = unpadded(wiring, state)
    return load, np.where(np.isfinite(budget), budget, 0.0)


def _components(state: fs.State, tied: NDArray, roots: NDArray) -> list[NDArray]:
    """The filters of each of these components, in order."""
    if not len(roots):
        return []
    members = np.flatnonzero(tied & np.isin(state.component, roots))
    members = members[np.argsort(state.component[members], kind="stable")]
    return np.split(members, np.flatnonzero(np.diff(state.component[members])) + 1)


def _part(load: csr_matrix, budget: NDArray, members: NDArray) -> tuple[csr_matrix, NDArray]:
    """The targets of one component."""
    mine = load[:, members]
    used = np.flatnonzero(np.diff(mine.indptr))
    return mine[used], budget[used]


def _start(
    wiring: fs.Wiring,
    state: fs.State,
    history: Curves,
    load: csr_matrix,
    budget: NDArray,
    components: list[NDArray],
) -> None:
    """Widths that analysed history recommends; small components in one go, by a method that treats each by itself."""
    small = [c for c in components if len(c) < SMALL]
    jobs = [(np.concatenate(small), "dual")] if small else []
    for members, method in (*jobs, *((c, "auto") for c in components if len(c) >= SMALL)):
        part, room = _part(load, budget, members)
        cost, known, label = wiring.cost[members], history.of(members), state.component[members]
        widths = allocate(known, cost, part, room, method)
        if isinstance(known, History):
            widths = _trusted(known, widths, cost, part, room, method, label)
        set_widths(wiring, state, members, widths)
        state.need[members] = state.spacing[members] = SPACING


def _trusted(
    history: History,
    widths: NDArray,
    cost: NDArray,
    load: csr_matrix,
    budget: NDArray,
    method: str,
    label: NDArray,
) -> NDArray:
    """A plan from history blended with uniform widths, by how plans from its first quarters did in the next ones.

    Of the blends that chance cannot tell from the best, each component takes the one nearest to uniform.
    """
    equal, (_, component) = uniform(load, budget), np.unique(label, return_inverse=True)
    score = np.zeros((len(BLENDS), component.max(initial=-1) + 1))
    for quarter in range(1, QUARTERS):
        before, after = history.until(quarter), history.quarter(quarter)
        planned = allocate(smoothed(before, history.ticks * quarter / QUARTERS), cost, load, budget, method)
        for b, share in enumerate(BLENDS):
            spent = cost * expected(after, blended(planned, equal, share)) * history.ticks / QUARTERS
            score[b] += np.bincount(component, spent, minlength=score.shape[1])
    least = score.min(axis=0)
    trust = np.array(BLENDS)[(score <= least + np.sqrt(least)).argmax(axis=0)][component]
    return np.where(np.isfinite(widths), trust * widths + (1 - trust) * equal, widths)


def _again(wiring: fs.Wiring, state: fs.State, load: csr_matrix, budget: NDArray, members: NDArray, tell: Told) -> None:
    """New widths from what the shadows have counted, if they pay."""
    cost, current = wiring.cost[members], state.width[members]
    equal = uniform(load, budget)
    ticks = max(int(state.clock[fs.TICK] - state.planned[members].max()), 1)
    first = state.plans[members].max() == 0
    if first and _gain(state.since[members], ticks, current, cost, load, budget) < GATE * cost.sum():
        state.need[members] = 1.5 * np.maximum(state.need[members], kernel.ASK)
        return
    half, count, updates, window, scale = _split(tell(members))
    state.control[members] += 1 if first else ((count.sum(axis=1) + updates) > 0).astype(np.int64)
    width = 2.0 * np.where(half[:, :1] > 0, half, grid(np.maximum(equal, 1e-300), half.shape[1], RATIO) / 2)
    window = window[:, None]
    recent = _curves(width, count, updates, window, scale)
    if not first:
        scored = blend_costs(state.plan_width[members], equal, recent, cost) * window.max()
        state.score[members] = FORGET * state.score[members] + scored
    for past, new in ((state.past_count, count), (state.past_updates, updates), (state.past_ticks, window[:, 0])):
        past[members] = FORGET * past[members] + new
    seen = state.past_ticks[members][:, None]
    curves = smoothed(_curves(width, state.past_count[members], state.past_updates[members], seen, scale), seen)
    wanted = allocate(curves, cost, load, budget)
    share = TRUST if first else BLENDS[int(np.argmin(state.score[members[0]]))]
    chosen = settle(current, blended(wanted, equal, share), curves, cost, load, budget, 1.0, HORIZON * ticks)
    before, after = (float((cost * expected(curves, w)).sum()) for w in (current, chosen))
    set_widths(wiring, state, members, chosen)
    _note(state, members, wanted, before - after > QUIET * before)


def _note(state: fs.State, members: NDArray, wanted: NDArray, gained: bool) -> None:
    """What the next plan of a component begins with."""
    state.plan_width[members] = wanted
    state.plans[members] += 1
    state.planned[members] = state.clock[fs.TICK]
    state.since[members] = 0
    state.back[members] = 1.0 if gained else np.minimum(2.0 * np.maximum(state.back[members], 1.0), LONGEST)
    state.spacing[members] = np.minimum(2.0 * np.maximum(state.spacing[members], kernel.ASK), SPACING)
    state.need[members] = (state.spacing[members] * state.back[members]).max()


def _gain(sent: NDArray, ticks: int, width: NDArray, cost: NDArray, load: csr_matrix, budget: NDArray) -> float:
    """Messages that a plan might save in as many ticks again, from what was sent alone: the sites need not be asked.

    Rates are drawn to their mean as far as they are as equal as chance makes them, and taken to fall as 1 / width.
    """
    sent = sent.astype(float)
    mean = max(sent.mean(), 1e-9)
    prior = mean * mean / max(sent.var() - mean, 1e-9)
    rate = (sent + prior) / (ticks + prior * ticks / mean)
    width = np.maximum(width, 1e-300)
    points = grid(width, GRID, RATIO)
    curves = Curves(points, rate[:, None] * (width[:, None] / points), 30.0 * rate)
    saved = cost * (rate - expected(curves, allocate(curves, cost, load, budget)))
    return float(saved.sum()) * ticks


def _counted(state: fs.State, members: NDArray) -> NDArray:
    """What the shadows of these filters say, where sites and coordinator are one process."""
    found = np.array([told(state, j) for j in members])
    for j in members:
        begin(state, j)
    return found


def _split(found: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    points = (found.shape[1] - 3) // 2
    return found[:, :points], found[:, points : 2 * points], *found[:, 2 * points :].T


def _curves(width: NDArray, count: NDArray, updates: NDArray, ticks: NDArray, scale: NDArray) -> Curves:
    """Counts as rates; a filter's predictor saves about the same share at all widths."""
    rate = count / ticks * scale[:, None]
    return Curves(width, rate, np.maximum(rate.max(axis=1), updates / ticks[:, 0]))
