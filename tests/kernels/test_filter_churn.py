"""Adaptive filters in steps: cut anywhere, bounds that change, items and queries that come, totals made anew."""

import itertools
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_state import COUNT_TOTAL, MAX, MIN, ROWS_TOTAL, SUM
from tests.kernels.filter_oracle import METHODS, WALKS, Case, Cell, Session, one_sum, random_case, random_ticks

TAME = tuple(k for k in WALKS if k != "wild")
LISTS = {  # what is behind their counters is left over
    "targets": fs.TARGETS, "groups": fs.GROUPS, "moving": fs.MOVING, "recheck": fs.RECHECK, "joined": fs.JOINED,
}  # fmt: skip


def random_world(rng, ticks):
    scale = rng.choice((1.0, 1.0, 1e-9, 1e9))
    case = random_case(rng, rng.randint(1, 5), rng.randint(1, 2), rng.randint(1, 4), scale=scale)
    case.ticks = list(random_ticks(rng, case, ticks, scale, TAME))
    return case


def cut(case, method, cuts):
    """A session that ends a step at each cut, and restarts from a saved state."""
    session = Session(case, method)
    for first, last in itertools.pairwise([0, *sorted(cuts), len(case.ticks)]):
        session.state = fs.State(*pickle.loads(pickle.dumps(tuple(session.state))))
        session.step(case.ticks[first:last], checked=False)
    return session


def assert_same(one, two):
    assert one.log == two.log or repr(one.log) == repr(two.log)
    for name, a, b in zip(fs.State._fields, one.state, two.state):
        if name in LISTS:
            a, b = (x[: s.state.clock[LISTS[name]]] for x, s in ((a, one), (b, two)))
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 50), max_size=6), st.sampled_from(METHODS))
def test_steps_can_be_cut_anywhere(seed, cuts, method):
    case = random_world(random.Random(seed), 50)
    assert_same(cut(case, method, []), cut(case, method, cuts))


def test_steps_can_be_cut_while_predictors_run_and_plans_are_made():
    planned = predicted = 0
    for seed in range(10):
        rng = random.Random(seed)
        case = random_case(rng, rng.randint(2, 5), rng.randint(1, 2), rng.randint(1, 3), percents=seed % 2 == 0)
        case.ticks = list(random_ticks(rng, case, 330, 1.0, ("trend", "back", "walk"), dense=True, churn=seed % 3 == 0))
        whole = cut(case, "adaptive", [])
        assert_same(whole, cut(case, "adaptive", [rng.randrange(330) for _ in range(9)]))
        if seed < 4:
            assert_same(whole, cut(case, "adaptive", range(1, 330)))
        planned += (whole.state.planned > 0).sum()
        predicted += (whole.state.predictor > 0).sum()
    assert planned > 0 and predicted > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(METHODS))
def test_bounds_that_change_hold_from_the_next_tick_on(seed, method):
    rng = random.Random(seed)
    case = random_world(rng, 48)
    session = Session(case, method)
    for first in range(0, 48, 6):
        for tick in case.ticks[first : first + 6]:
            session.step([tick])
        bounds = [c.bound for cells in session.case.groups for c in cells]
        session.promise(
            [b * rng.choice((0.0, 0.01, 0.5, 1.0, 3.0, 100.0)) if rng.random() < 0.7 else b for b in bounds]
        )
        if rng.random() < 0.5:
            session.step([[]])
            session.oracle.truths.pop()
            session.ticks -= 1


@pytest.mark.parametrize("method", METHODS[:3])
def test_a_tighter_bound_is_told_at_once_and_a_looser_one_is_not(method):
    case = one_sum(1.0, 1.0, bound=8.0)
    session = Session(case, method)
    session.step([[(0, [10.0]), (1, [20.0])], [(0, [11.0])], [(1, [19.0])]])
    assert len(session.log) == 1 and not session.state.messages.any()
    session.promise([1.0])
    session.step([[]])
    assert session.log[-1][0] == 3 and session.state.messages.tolist() == [1, 1]
    session.promise([50.0])
    session.step([[], [(0, [11.2])]])
    assert session.log[-1][0] == 3 and session.state.messages.tolist() == [1, 1]


# ---------------------------------------------------------------- more items, more groups


def part_first(case: Case, items: int, groups: int) -> Case:
    """The same case, with the targets first that there are while only these items and groups are."""
    owner = {t: i for i, _, total, t, _ in case.flag_edges if total != ROWS_TOTAL}

    def is_late(t):
        g, c = case.targets[t]
        return g >= groups or (case.groups[g][c].kind in (MIN, MAX) and owner[t] >= items)

    order = sorted(range(len(case.targets)), key=is_late)
    new = {t: k for k, t in enumerate(order)}
    return replace(
        case,
        targets=[case.targets[t] for t in order],
        value_edges=[(i, v, new[t], w) for i, v, t, w in case.value_edges],
        flag_edges=[(i, k, n, t if n == ROWS_TOTAL else new[t], w) for i, k, n, t, w in case.flag_edges],
    )


def part_of(case: Case, items: int, groups: int) -> Case:
    """What is there while only these items and groups are."""
    owner = {t: i for i, _, total, t, _ in case.flag_edges if total != ROWS_TOTAL}
    there = [
        g < groups and (case.groups[g][c].kind not in (MIN, MAX) or owner[t] < items)
        for t, (g, c) in enumerate(case.targets)
    ]
    assert there == sorted(there, reverse=True)
    return replace(
        case,
        items=items,
        groups=case.groups[:groups],
        always=case.always[:groups],
        targets=case.targets[: sum(there)],
        value_edges=[e for e in case.value_edges if e[0] < items and there[e[2]]],
        flag_edges=[
            e for e in case.flag_edges if e[0] < items and (e[3] < groups if e[2] == ROWS_TOTAL else there[e[3]])
        ],
        cost=case.cost and case.cost[:items],
    )


def without(case: Case, items: int, groups: int) -> Case:
    """The first items take no part in groups from this one on."""

    def is_kept(item, group):
        return item >= items or group < groups

    used = {t for i, _, n, t, _ in case.flag_edges if n != ROWS_TOTAL and is_kept(i, case.targets[t][0])}
    linear = {t for t, (g, c) in enumerate(case.targets) if case.groups[g][c].kind not in (MIN, MAX)}
    new = {t: k for k, t in enumerate(sorted(used | linear))}
    return replace(
        case,
        targets=[case.targets[t] for t in new],
        value_edges=[(i, v, new[t], w) for i, v, t, w in case.value_edges if is_kept(i, case.targets[t][0])],
        flag_edges=[
            (i, k, n, t if n == ROWS_TOTAL else new[t], w)
            for i, k, n, t, w in case.flag_edges
            if is_kept(i, t if n == ROWS_TOTAL else case.targets[t][0])
        ],
    )


def everything_used(case: Case) -> Case:
    """Every feature of every item weighs in one more answer of the first group."""
    target = len(case.targets)
    slots = [(k, case.flags.index(needs)) for k, (f, needs) in enumerate(case.values) if needs == (f,)]
    more = [(i, v, target, 1.0) for i in range(case.items) for v, _ in slots]
    flags = [(i, k, COUNT_TOTAL, target, 1.0) for i in range(case.items) for _, k in slots]
    groups = [[*case.groups[0], Cell(SUM, 30.0)], *case.groups[1:]]
    return replace(
        case,
        groups=groups,
        targets=[*case.targets, (0, len(groups[0]) - 1)],
        value_edges=case.value_edges + more,
        flag_edges=case.flag_edges + flags,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(METHODS), st.booleans())
def test_state_grows_with_items_and_groups(seed, method, old_items_join):
    """New items join old groups and bring new ones; old_items_join: new queries over old items, too."""
    rng = random.Random(seed)
    full = random_case(rng, 6, rng.randint(1, 2), 5)
    stages = [(2, 2), (4, 4), (6, 5)]
    if old_items_join:
        full = everything_used(full)
    else:
        full = without(without(full, *stages[0]), *stages[1])
    full.ticks = list(random_ticks(rng, full, 45, kinds=TAME))
    for items, groups in reversed(stages):
        full = part_first(full, items, groups)
    session = None
    for k, (items, groups) in enumerate(stages):
        now = part_of(full, items, groups)
        if session is None:
            session = Session(now, method)
        else:
            session.rewire(now, anew=old_items_join)
        for tick in full.ticks[k * 15 : k * 15 + 15]:
            session.step([[row for row in tick if row[0] < items]])
    assert len(session.state.alive) == 6 and len(session.state.group_alive) == 5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(METHODS))
def test_totals_made_anew_are_the_totals_kept(seed, method):
    case = random_world(random.Random(seed), 30)
    session = Session(case, method)
    for tick in case.ticks:
        session.step([tick])
    kept = session.state
    anew = fs.State(*(a.copy() for a in kept))
    kernel.sum_anew(session.wiring, anew)
    for name in ("count", "rows", "active"):
        assert getattr(anew, name).tolist() == getattr(kept, name).tolist(), name
    total = np.abs((anew.high - kept.high) + (anew.low - kept.low))
    assert (total <= 2.0**-94 * np.maximum(kept.size, anew.size)).all()
    spread = np.abs((anew.spread - kept.spread) + (anew.spread_low - kept.spread_low))
    assert (spread <= 2.0**-50 * anew.spread + 2.0**-94 * (kept.size + 1e12)).all()
    session.state = anew
    kernel.touch_all(anew)
    for tick in [[], *case.ticks[:5]]:
        session.step([tick])


def test_sizes_made_anew_know_items_that_come_back():
    """An item that is away when totals are made anew: what its values round by counts again once it is back."""
    session = Session(one_sum(1.0, 1.0, bound=1.0), "uniform")
    session.step([[(0, [1e9]), (1, [1.0])], [(0, None)]])
    kernel.sum_anew(session.wiring, session.state)
    session.step([[(0, [1e9])]])
    assert session.state.size[0] >= 1e9


@pytest.mark.parametrize("method", METHODS)
def test_a_global_aggregate_that_comes_later_answers_at_once(method):
    full = one_sum(1.0, bound=1.0)
    full.groups, full.always = full.groups * 2, [False, True]
    full.targets = [(0, 0), (1, 0)]
    session = Session(part_of(full, 1, 1), method)
    session.step([[(0, [3.0])]])
    session.rewire(full)
    session.step([[]])
    assert [(t, g, d) for t, g, d, _ in session.log] == [(0, 0, 1), (1, 1, 1)]
