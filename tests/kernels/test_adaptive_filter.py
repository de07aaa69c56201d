"""The law of adaptive filters, checked at every tick by filter_oracle.py: random, adversarial and real-like traces."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadband.compiler.planning.cost_curves import Curves, grid
from deadband.runtime.kernels.filter_state import AVG, COUNT, COUNT_TOTAL, MAX, MIN, ROWS_TOTAL, SUM
from tests.kernels.filter_oracle import (
    METHODS,
    WALKS,
    Case,
    Cell,
    Oracle,
    Session,
    one_sum,
    random_case,
    random_ticks,
)

TAME = tuple(k for k in WALKS if k != "wild")


@st.composite
def cases(draw, most_ticks=50):
    """A wiring and a trace of some scale; sums of any magnitude meet absolute bounds only."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    items, features, groups = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    scale, percents = draw(st.sampled_from((1.0, 1e-9, 1e9))), draw(st.booleans())
    case = random_case(rng, items, features, groups, percents, scale)
    kinds = TAME if percents else WALKS
    case.ticks = list(random_ticks(rng, case, draw(st.integers(1, most_ticks)), scale, kinds))
    return case


def by_tick(case, method, oracle=None, **more):
    """A session that was checked, its state included, after every single tick."""
    session = Session(case, method, oracle, **more)
    for tick in case.ticks:
        session.step([tick])
    return session


def often(rng, state):
    """Components ask for a plan long before they would by themselves."""
    if rng.random() < 0.1:
        state.limit[:] = np.minimum(state.limit, state.spent + 2.0)


@settings(max_examples=50, deadline=None)
@given(cases())
def test_the_law_holds_at_every_tick(case):
    oracle = Oracle(case)
    for method in METHODS:
        by_tick(case, method, oracle)


@settings(max_examples=25, deadline=None)
@given(cases(), st.integers(0, 2**32))
def test_the_law_holds_with_widths_from_history(case, seed):
    rng = np.random.default_rng(seed)
    count = case.items * case.features
    rate = np.sort(rng.random((count, 12)), axis=1)[:, ::-1] * rng.choice((0.0, 0.5, 1.0), (count, 1))
    by_tick(case, "adaptive", history=Curves(grid(rng.uniform(0.01, 50, count)), rate, rate[:, 0]))


def test_the_law_holds_while_predictors_and_plans_come_and_go():
    """Dense traces with trends and mean reversion: predictors switch on, and components are planned again and again."""
    planned = predicted = 0
    for seed in range(12):
        rng = random.Random(seed)
        scale = rng.choice((1.0, 1.0, 1e-9, 1e9))
        case = random_case(rng, rng.randint(2, 4), rng.randint(1, 2), rng.randint(1, 3), seed % 2 == 0, scale)
        kinds = ("trend", "back", "trend", "walk")
        case.ticks = list(random_ticks(rng, case, 260, scale, kinds, dense=True, churn=seed % 3 == 0))
        session = Session(case, "adaptive")
        for tick in case.ticks:
            session.step([tick])
            often(rng, session.state)
        planned += (session.state.planned > 0).sum()
        predicted += (session.state.predictor > 0).sum()
    assert planned > 0 and predicted > 0


def adversary(rng, session, scale):
    """Values exactly at the edge of their filters, and one rounding beyond; all the same way, or each its own."""
    state, F = session.state, session.case.features
    ahead, half = state.centre + state.step, state.width / 2
    together, rows = rng.choice((None, 1, -1)), []
    for i in range(session.case.items):
        if rng.random() < 0.1:
            rows += [(i, None)] if rng.random() < 0.2 else []
            continue
        x = []
        for j in range(i * F, i * F + F):
            sign = together or rng.choice((1, -1))
            edge = ahead[j] + sign * half[j]
            beyond = edge + sign * (2 * half[j] + 0.1 * scale)
            at = float(
                rng.choice((edge, edge, np.nextafter(edge, sign * np.inf), edge + sign * 1e-9 * half[j], beyond))
            )
            at = at if abs(at) > 1e-100 else rng.random() * scale
            x.append(None if rng.random() < 0.02 else at)
        rows.append((i, x))
    return rows


@pytest.mark.parametrize("method", METHODS[:3])
def test_the_law_holds_against_an_adversary_who_sees_the_filters(method):
    for seed in range(16):
        rng = random.Random(seed)
        scale = rng.choice((1.0, 1.0, 1e-9, 1e9))
        case = random_case(rng, rng.randint(1, 5), rng.randint(1, 2), rng.randint(1, 4), seed % 2 == 0, scale)
        session = Session(case, method)
        for _ in range(80):
            session.step([adversary(rng, session, scale)])
            often(rng, session.state)


@pytest.mark.parametrize("method", METHODS)
def test_many_groups_over_many_shared_items(method):
    rng = random.Random(8)
    case = random_case(rng, items=16, features=3, groups=14)
    case.ticks = list(random_ticks(rng, case, 40, kinds=TAME))
    session = Session(case, method)
    for first in range(0, 40, 8):
        session.step(case.ticks[first : first + 8])
    assert session.state.messages.sum() > 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_pads_cover_what_changed_unseen(seed):
    """The interval holds for every value within half a pad of the last one seen."""
    rng = random.Random(seed)
    case = random_case(rng, rng.randint(1, 5), rng.randint(1, 2), rng.randint(1, 3), percents=False)
    load = [0.0] * len(case.targets)
    for _, _, t, w in case.value_edges:
        load[t] += abs(w)
    case.pad = [rng.choice((0.0, 0.3, 0.8)) for _ in range(case.items * case.features)]
    for i, v, t, _ in case.value_edges:
        g, c = case.targets[t]
        j = i * case.features + case.values[v][0]
        case.pad[j] = min(case.pad[j], 0.9 * case.groups[g][c].bound / load[t])
    case.ticks = list(random_ticks(rng, case, 40, kinds=TAME))
    oracle = Oracle(case)
    for method in METHODS:
        by_tick(case, method, oracle)


# ---------------------------------------------------------------- by hand


def at_each_tick(case, *values):
    """Ticks in which every item gets its value of the tuple; "-": none, "x": deleted, None: NULL."""
    for row in values:
        row = row if isinstance(row, tuple) else (row,)
        rows = [(i, None if x == "x" else [x]) for i, x in enumerate(row) if x != "-"]
        case.ticks.append(rows)
    return case


def told(case, method="uniform"):
    """(tick, diff, low, high) of all reports of the only cell, to ten digits."""
    return [(t, d, *(float(f"{x:.9g}") for x in a[0])) for t, _, d, a in by_tick(case, method).log]


@pytest.mark.parametrize("method", METHODS[:3])
def test_one_item_sends_when_it_leaves_half_its_width(method):
    case = at_each_tick(one_sum(2.0, bound=8.0), 10.0, 11.9, 8.1, 12.1, 12.1, 10.2, 10.0)
    session = by_tick(case, method)
    assert session.state.messages.tolist() == [2] and session.state.control.tolist() == [0]
    assert session.state.width[0] == pytest.approx(4.0)
    assert told(case, method) == [(0, 1, 16.0, 24.0), (3, 1, 20.2, 28.2), (6, 1, 16.0, 24.0)]


@pytest.mark.parametrize("method", METHODS[:3])
@pytest.mark.parametrize("swing", [0.999, 1.001])
def test_alternating_values_send_all_or_nothing(method, swing):
    case = at_each_tick(one_sum(1.0, bound=4.0), 0.0, *(2.0 * swing * (-1) ** k for k in range(20)))
    assert by_tick(case, method).state.messages[0] == (0 if swing < 1 else 20)


def test_single_item_targets_keep_a_fixed_width():
    """Item 0 is alone in its answer, items 1 and 2 share theirs."""
    case = one_sum(1.0, 1.0, 1.0, bound=4.0)
    case.groups, case.always = [[Cell(SUM, 4.0)], [Cell(SUM, 4.0)]], [False, False]
    case.targets = [(0, 0), (1, 0)]
    case.value_edges = [(0, 0, 0, 1.0), (1, 0, 1, 1.0), (2, 0, 1, 1.0)]
    case.flag_edges = [(i, k, t, int(i > 0), 1.0) for i in range(3) for k, t in ((0, ROWS_TOTAL), (1, COUNT_TOTAL))]
    rng = random.Random(1)
    case.ticks = [[(i, [rng.gauss(0, 9 if i == 2 else 1)]) for i in range(3)] for _ in range(200)]
    for method in ("adaptive", "reference"):
        session = Session(case, method)
        widths = set()
        for tick in case.ticks:
            session.step([tick])
            widths.add(float(session.state.width[0]))
        assert len(widths) == 1 and widths.pop() == pytest.approx(4.0)
        assert session.state.control[0] == 0
        assert method == "adaptive" or session.state.control[2] > 0


def test_items_in_no_target_send_nothing():
    """Item 1 is only counted, item 2 is nowhere."""
    case = one_sum(1.0, 1.0, 1.0)
    case.value_edges, case.flag_edges = case.value_edges[:1], [e for e in case.flag_edges if e[0] < 2]
    case.ticks = [[(i, [float(k)]) for i in range(3)] for k in range(30)]
    for method in METHODS:
        state = by_tick(case, method).state
        assert state.messages[0] > 0 and state.messages[1:].tolist() == [0, 0] and not state.control.any()


def test_without_filters_every_value_is_sent():
    rng = random.Random(3)
    case = one_sum(1.0, -2.0, 1 / 3, bound=1e9)
    case.ticks = list(random_ticks(rng, case, 60, kinds=("walk", "constant")))
    session = by_tick(case, "none")
    rows = sum(len(t) for t in case.ticks)
    first = len({i for t in case.ticks for i, _ in t})
    state = session.state
    assert state.messages.sum() == state.values.sum() and state.changes.sum() == rows
    assert state.values.sum() + state.arrivals.sum() <= rows - first + 1


def test_uniform_widths_are_what_division_says():
    """Width = bound / Σ|w| at the least of an item's answers, and messages as counted by hand."""
    case = one_sum(1.0, 3.0, bound=8.0)
    case.groups[0].append(Cell(AVG, 0.25))
    case.targets.append((0, 1))
    case.value_edges += [(0, 0, 1, 1.0)]
    case.flag_edges += [(i, 1, COUNT_TOTAL, 1, 1.0) for i in range(2)]
    rng = random.Random(4)
    case.ticks = [[(i, [rng.gauss(0, 1)]) for i in range(2)] for _ in range(100)]
    state = by_tick(case, "uniform").state
    assert state.width.tolist() == pytest.approx([0.5, 2.0], rel=1e-8)
    for i, width in enumerate((0.5, 2.0)):
        centre, sent = None, -1
        for tick in case.ticks:
            x = tick[i][1][0]
            if centre is None or abs(x - centre) > width / 2:
                centre, sent = x, sent + 1
        assert state.messages[i] == sent


@pytest.mark.parametrize("method", METHODS)
def test_a_group_vanishes_and_comes_back(method):
    case = at_each_tick(one_sum(1.0, bound=2.0), "-", 5.0, "x", "x", 5.0, "x")
    assert [(t, d) for t, d, *_ in told(case, method)] == [(1, 1), (2, -1), (4, 1), (5, -1)]


@pytest.mark.parametrize("method", METHODS)
def test_null_is_told_whatever_the_bound(method):
    case = at_each_tick(one_sum(1.0, bound=1e9), 5.0, None, 5.0)
    assert [(t, d) for t, d, *_ in told(case, method)] == [(0, 1), (1, 1), (2, 1)]
    case = at_each_tick(one_sum(1.0, bound=0.0, default=5.0), 5.0, None, 5.0)
    assert told(case, method) == [(0, 1, 5.0, 5.0)]
    case = at_each_tick(one_sum(1.0, bound=1e9, kind=COUNT), 5.0, None, "x")
    assert told(case, method) == [(0, 1, 1.0, 1.0), (1, 1, 0.0, 0.0), (2, -1, 0.0, 0.0)]


@pytest.mark.parametrize("method", METHODS)
def test_a_global_aggregate_answers_from_the_first_tick(method):
    case = at_each_tick(one_sum(1.0, bound=0.0), "-", "-", 3.0, "x", "-", 4.0)
    case.always = [True]
    assert [(t, d) for t, d, *_ in told(case, method)] == [(0, 1), (2, 1), (3, 1), (5, 1)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [SUM, AVG, MIN, MAX])
def test_percent_answers_pass_through_zero(method, kind):
    """Falls from 100 to -100, stops at 0, jumps, and comes back; two items that cancel out at times."""
    path = [100.0 - 5 * k for k in range(21)] + [0.0] * 12 + [1e-9, -1e-9, -100.0, 1e6, -1e-6, 0.0, 50.0]
    for weights in ((1.0,), (1.0, 1.0), (3.0, -1.0)):
        case = one_sum(*weights, bound=0.2, percent=True, kind=kind)
        if kind in (MIN, MAX):
            count = len(weights)
            case.targets = [(0, 0)] * count
            case.value_edges = [(i, 0, i, w) for i, w in enumerate(weights)]
            case.flag_edges = [(i, 0, ROWS_TOTAL, 0, 1.0) for i in range(count)]
            case.flag_edges += [(i, 1, COUNT_TOTAL, i, 1.0) for i in range(count)]
        at_each_tick(case, *((x, *(x + k % 3 for _ in weights[1:])) for k, x in enumerate(path + path)))
        by_tick(case, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("percent", [False, True])
def test_extrema_with_many_candidates(method, percent):
    """Twelve items compete with two candidates each; leaders go, come back, and are overtaken."""
    rng = random.Random(9)
    targets = [(0, c) for _ in range(12) for c in (0, 0, 1, 1)]
    edges = [(t // 4, t, (1.0, -2.0, 0.5, 1.0)[t % 4]) for t in range(len(targets))]
    case = Case(
        items=12, features=1, values=[(0, (0,))], flags=[(), (0,)], always=[False], targets=targets,
        groups=[[Cell(MIN, 0.05 if percent else 2.0, percent), Cell(MAX, 0.1 if percent else 3.0, percent, 5.0)]],
        value_edges=[(i, 0, t, w) for i, t, w in edges],
        flag_edges=[(i, 1, COUNT_TOTAL, t, 1.0) for i, t, _ in edges] + [(i, 0, ROWS_TOTAL, 0, 1.0) for i in range(12)],
    )  # fmt: skip
    case.ticks = list(random_ticks(rng, case, 60, kinds=("walk", "steps", "bursts", "back")))
    by_tick(case, method)


@pytest.mark.parametrize("method", METHODS[:3])
def test_constant_values_are_sent_once(method):
    case = one_sum(1.0, 1.0, bound=0.0)
    case.ticks = [[(0, [7.0]), (1, [1 / 3])]] * 150
    state = by_tick(case, method).state
    assert not state.messages.any() and state.values.tolist() == [149, 149] and state.reports.tolist() == [0]


def test_zero_bounds_are_plain_sql():
    rng = random.Random(2)
    case = one_sum(1.0, -7.0, 0.1, bound=0.0)
    case.ticks = list(random_ticks(rng, case, 200, kinds=("walk", "wild"), dense=True, churn=False))
    for method in METHODS:
        session = by_tick(case, method)
        assert all(low == high for _, _, _, [(low, high)] in session.log)
        assert session.state.messages.sum() == session.state.values.sum()


@pytest.mark.parametrize("method", METHODS)
def test_a_spike_leaves_nothing_behind(method):
    """1e17 comes and goes beside 0.1: a plain running sum would keep the rounding of both."""
    case = at_each_tick(one_sum(1.0, 1.0, bound=0.0), (0.1, 0.0), (1e17, 0.0), (0.1, 0.0), (1e17, "x"), (0.1, 0.0))
    assert by_tick(case, method).log[-1][3] == [(0.1, 0.1)]


def test_the_oracle_by_hand():
    case = one_sum(2.0, -1.0, kind=AVG, offset=1.0)
    oracle = Oracle(at_each_tick(case, (3.0, "-"), (3.0, 1.0), (None, 1.0), ("x", "x")))
    for tick in case.ticks:
        oracle.take(tick)
    found = [t[0] and t[0][0].low for t in oracle.truths]
    assert found == [Fraction(7), Fraction(7, 2), Fraction(0), None]
