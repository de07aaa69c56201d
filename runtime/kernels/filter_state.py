"""What adaptive filters keep: the wiring a plan fixes, the state that outlives a step, rows in, reports out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from deadband.runtime.kernels.cost_curves import PREDICTORS, SITE

__all__ = ["CLOCK", "PER_FILTER", "Emitted", "Rows", "State", "Wiring", "grown", "inner", "new_state"]

# For functions that only kernels call: without the way in from Python, which takes longer to compile than most of them.
inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]

SUM, AVG, COUNT, MIN, MAX = 0, 1, 2, 3, 4  # kinds of cells
ROWS_TOTAL, COUNT_TOTAL, SUM_TOTAL = 0, 1, 2  # where a flag edge goes
ADAPTIVE, REFERENCE, UNIFORM, NONE = 0, 1, 2, 3  # methods

BLENDS = 5  # blends of a plan with uniform widths that are scored

NEVER, ALIVE, DEAD = 0, 1, 2  # an item

# entries of State.clock
TICK, TARGETS, GROUPS, MOVING, RECHECK, JOINED, CHANGED, ASKED, LOGGED = 0, 1, 2, 3, 4, 5, 6, 7, 8
CLOCK = 9


class Wiring(NamedTuple):
    """What the plans fix: which slot weighs how much in which target, and what is promised."""

    value_feature: NDArray  # int64[V]
    value_needs: NDArray  # uint64[V], bits of features
    value_start: NDArray  # int64[I·V + 1]
    value_target: NDArray  # int32[edges]
    value_weight: NDArray  # float64[edges]
    value_load: NDArray  # float64[edges], abs(value_weight)
    flag_needs: NDArray  # uint64[K]
    flag_start: NDArray  # int64[I·K + 1]
    flag_target: NDArray  # int32[edges], groups for ROWS_TOTAL, else targets
    flag_total: NDArray  # int8[edges]
    flag_weight: NDArray  # float64[edges]
    feature_start: NDArray  # int64[F + 1]
    feature_slot: NDArray  # int64[V], the value slots of each feature
    target_start: NDArray  # int64[T + 1]
    target_slot: NDArray  # int64[edges], item·V + v
    target_load: NDArray  # float64[edges]
    target_cell: NDArray  # int32[T]
    target_group: NDArray  # int32[T]
    cell_start: NDArray  # int64[C + 1]
    cell_target: NDArray  # int32[T]
    cell_kind: NDArray  # int8[C]
    cell_offset: NDArray  # float64[C]
    cell_default: NDArray  # float64[C], NaN: none
    cell_bound: NDArray  # float64[C]
    cell_percent: NDArray  # uint8[C]
    group_start: NDArray  # int64[G + 1], first cell of each group
    group_always: NDArray  # uint8[G], a group that plain SQL has even without rows
    cost: NDArray  # float64[I·F], of a message
    floor: NDArray  # float64[1], messages of a component between two plans at least, so that planning stays cheap
    pad: NDArray  # float64[I·F], added to a width for what may have changed unseen


class State(NamedTuple):
    """Everything that outlives a step. Sites own value, alive, present and the shadows; both ends know the rest."""

    value: NDArray  # float64[I·F]
    centre: NDArray  # float64[I·F]
    width: NDArray  # float64[I·F]
    step: NDArray  # float64[I·F], by which the centre moves in the next tick
    decay: NDArray  # float64[I·F], of step from tick to tick
    active: NDArray  # uint8[I·F], some slot of it is on and weighs in a target
    fresh: NDArray  # uint8[I·F], its width has not been in force yet
    present: NDArray  # uint64[I]
    alive: NDArray  # uint8[I]
    ceiling: NDArray  # float64[I·V], a power of two above every abs(centre) so far
    high: NDArray  # float64[T]
    low: NDArray  # float64[T]
    spread: NDArray  # float64[T], Σ|w|·(width + pad)
    spread_low: NDArray  # float64[T]
    size: NDArray  # float64[T], above Σ|w·x|
    count: NDArray  # type: ignore[assignment]  # float64[T]
    rows: NDArray  # float64[G]
    reported_low: NDArray  # float64[C], NaN: NULL
    reported_high: NDArray  # float64[C]
    group_alive: NDArray  # uint8[G]
    targets: NDArray  # int32[T], touched in this tick
    is_target: NDArray  # uint8[T]
    groups: NDArray  # int32[G]
    is_group: NDArray  # uint8[G]
    moving: NDArray  # int32[I·F], filters whose centre may move by itself
    dense: NDArray  # uint8[I·F], 1: it is in moving, and runs predictors
    seen: NDArray  # int64[I·F], values since dense was decided
    predictor: NDArray  # uint8[I·F]
    site: NDArray  # float64[I·F, SITE], running estimates
    rival_centre: NDArray  # float64[I·F, PREDICTORS]: what each predictor would do at this width
    rival_step: NDArray  # float64[I·F, PREDICTORS]
    rival_decay: NDArray  # float64[I·F, PREDICTORS]
    rival_count: NDArray  # float64[I·F, PREDICTORS]
    recheck: NDArray  # int32[I·F]
    in_recheck: NDArray  # uint8[I·F]
    joined: NDArray  # int32[I·F], filters that came in this tick
    burden: NDArray  # float64[T], targets of the reference method
    shadow_half: NDArray  # float64[I·F, W], half the width of each shadow
    shadow_centre: NDArray  # float64[I·F, W]
    shadow_count: NDArray  # float64[I·F, W]
    shadow_since: NDArray  # int64[I·F], tick from which on the shadows count
    shadow_updates: NDArray  # float64[I·F], changes of the value since then
    messages: NDArray  # int64[I·F], values sent
    since: NDArray  # int64[I·F], of them since the last adjustment
    control: NDArray  # int64[I·F]
    values: NDArray  # int64[I·F], values that arrived
    arrivals: NDArray  # int64[I], changes of presence sent, the first apart
    changes: NDArray  # int64[I], rows that arrived
    component: NDArray  # int32[I·F], the first filter that it is tied to
    single: NDArray  # uint8[I·F], 1: alone in each of its targets, so its width is fixed
    spent: NDArray  # float64[I·F], cost of messages since the last plan, by component
    limit: NDArray  # float64[I·F], of spent, that asks for a plan, by component
    need: NDArray  # float64[I·F], messages per filter that sends, since the last plan, before the next is asked for
    planned: NDArray  # int64[I·F], tick of the last plan
    plans: NDArray  # int64[I·F], how often statistics were asked for
    spacing: NDArray  # float64[I·F], what need is while plans bring something
    back: NDArray  # float64[I·F], how much longer to wait after plans that brought nothing
    plan_width: NDArray  # float64[I·F], the last plan before it was blended with uniform widths
    score: NDArray  # float64[I·F, BLENDS], what each blend of the last plans would have cost
    past_count: NDArray  # float64[I·F, W], counts of the shadows before, forgotten exponentially
    past_updates: NDArray  # float64[I·F]
    past_ticks: NDArray  # float64[I·F]
    reports: NDArray  # int64[G], after the first
    wide: NDArray  # int64[G], ticks in which an interval was wider than promised
    log: NDArray  # int32, what was sent in this round: filters, or -1 - item; empty: nobody asks
    clock: NDArray  # int64[CLOCK]


class Rows(NamedTuple):
    """Updates of the ticks of one step, sorted by tick, then item; each item at most once a tick."""

    start: NDArray  # int64[ticks + 1], first row of each tick
    item: NDArray  # int32[rows]
    present: NDArray  # uint64[rows], bits of the features that are not NULL
    deleted: NDArray  # uint8[rows]
    feature: NDArray  # float64[rows, F], finite


class Emitted(NamedTuple):
    """Reports in order; the cells of report r begin at cell_start[r]."""

    tick: NDArray
    group: NDArray
    diff: NDArray
    cell_start: NDArray
    low: NDArray  # float64[cells], NaN: NULL
    high: NDArray


def new_state(wiring: Wiring, items: int, shadows: int) -> State:
    """Nothing has arrived yet; groups that always exist wait for their first answer."""
    features = len(wiring.feature_start) - 1
    sizes = {
        "I": items,
        "N": items * features,
        "S": items * len(wiring.value_feature),
        "T": len(wiring.target_cell),
        "C": len(wiring.cell_kind),
        "G": len(wiring.group_always),
    }
    made = {}
    for name, (size, kind) in _FIELDS.items():
        made[name] = np.zeros(sizes[size], kind)
    for name in ("shadow_half", "shadow_centre", "shadow_count", "past_count"):
        made[name] = np.zeros((sizes["N"], shadows))
    for name in ("rival_centre", "rival_step", "rival_decay", "rival_count"):
        made[name] = np.zeros((sizes["N"], PREDICTORS))
    made["site"] = np.zeros((sizes["N"], SITE))
    made["score"] = np.zeros((sizes["N"], BLENDS))
    made["reported_low"][:] = made["reported_high"][:] = np.nan
    made["limit"][:] = np.inf
    always = np.flatnonzero(wiring.group_always).astype(np.int32)
    made["groups"][: len(always)] = always
    made["is_group"][always] = 1
    clock = np.zeros(CLOCK, np.int64)
    clock[GROUPS] = len(always)
    return State(**made, log=np.zeros(0, np.int32), clock=clock)


_FIELDS = {
    **dict.fromkeys(("value", "centre", "width", "step", "decay"), ("N", np.float64)),
    **dict.fromkeys(("spent", "limit", "need", "spacing", "back", "plan_width"), ("N", np.float64)),
    **dict.fromkeys(("shadow_updates", "past_updates", "past_ticks"), ("N", np.float64)),
    **dict.fromkeys(("active", "fresh", "dense", "predictor", "in_recheck", "single"), ("N", np.uint8)),
    **dict.fromkeys(("moving", "recheck", "joined", "component"), ("N", np.int32)),
    **dict.fromkeys(
        ("shadow_since", "seen", "messages", "since", "control", "values", "planned", "plans"), ("N", np.int64)
    ),
    "present": ("I", np.uint64),
    "alive": ("I", np.uint8),
    **dict.fromkeys(("arrivals", "changes"), ("I", np.int64)),
    "ceiling": ("S", np.float64),
    **dict.fromkeys(("high", "low", "spread", "spread_low", "size", "count", "burden"), ("T", np.float64)),
    "targets": ("T", np.int32),
    "is_target": ("T", np.uint8),
    "rows": ("G", np.float64),
    "groups": ("G", np.int32),
    **dict.fromkeys(("is_group", "group_alive"), ("G", np.uint8)),
    **dict.fromkeys(("reports", "wide"), ("G", np.int64)),
    **dict.fromkeys(("reported_low", "reported_high"), ("C", np.float64)),
}


# what is known of a filter whatever the queries are
PER_FILTER = (
    "value", "centre", "width", "step", "decay", "dense", "seen", "predictor", "site", "rival_centre", "rival_step",
    "rival_decay", "rival_count", "shadow_half", "shadow_centre", "shadow_count", "shadow_since", "messages", "since",
    "control", "values", "planned", "plans", "need", "spacing", "back", "plan_width", "score", "past_count",
    "past_updates", "past_ticks", "shadow_updates",
)  # fmt: skip


def grown(old: State, new: State) -> State:
    """The old state in arrays that have room for what was added."""
    fresh = new.groups[: new.clock[GROUPS]].copy()  # before the old groups are written over it
    fields = {}
    for name in State._fields:
        before, after = getattr(old, name), getattr(new, name)
        if before.shape != after.shape:
            after[: len(before)] = before
            before = after
        fields[name] = before
    # groups that always exist and are new wait for their first answer
    waiting = old.clock[GROUPS]
    fresh = fresh[fresh >= len(old.group_alive)]
    fields["groups"][waiting : waiting + len(fresh)] = fresh
    fields["is_group"][fresh] = 1
    fields["clock"][GROUPS] = waiting + len(fresh)
    return State(**fields)
