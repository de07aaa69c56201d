"""The kernel against a slow obvious version, drift_oracle.py, on random wirings and traces."""

import itertools
import pickle
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.kernels.emit_on_drift import AVG, COUNT, COUNT_TOTAL, ROWS_TOTAL, SUM, SUM_TOTAL
from tests.kernels.drift_oracle import Case, Oracle

SHARES = (1.0, 0.98, 0.9, 0.75, 0.5, 0.3)


@st.composite
def cases(draw, exact=True):
    """A wiring and a trace. exact: numbers whose products and sums have few bits, so that floats are exact."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    items, features, groups = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    kinds = draw(st.lists(st.sampled_from((SUM, AVG, COUNT)), min_size=1, max_size=3))
    needs = [(), *[(f,) for f in range(features)], tuple(range(features))]
    values = [(f, n) for n in needs for f in n]
    flags = needs
    number = dyadic if exact else wild
    value_edges, flag_edges = [], []
    for item in range(items):
        for group in range(groups):
            joined = rng.choice((0, 0, 1, 1, 2, 3))  # static rows of this group that the item joins
            if not joined:
                continue
            flag_edges.append((item, 0, ROWS_TOTAL, group, -1, float(joined)))
            for a, kind in enumerate(kinds):
                n = rng.choice(needs)
                whole = rng.randint(0, joined)
                if whole:
                    flag_edges.append((item, flags.index(n), COUNT_TOTAL, group, a, float(whole)))
                if not whole or kind == COUNT:
                    continue
                if rng.random() < 0.4:
                    flag_edges.append((item, flags.index(n), SUM_TOTAL, group, a, number(rng)))
                for f in n:
                    weight = number(rng) * rng.choice((0, 1, 1, 1))
                    if weight:
                        value_edges.append((item, values.index((f, n)), group, a, weight))
    bounds = [[rng.choice((0.0, 0.25, 1.0, 4.0, 0.5, 40.0)) for _ in kinds] for _ in range(groups)]
    if not exact:
        bounds = [[b * 10.0 ** rng.randint(-2, 6) for b in row] for row in bounds]
    return Case(
        items=items,
        features=features,
        values=values,
        flags=flags,
        value_edges=value_edges,
        flag_edges=flag_edges,
        kinds=kinds,
        offsets=[rng.choice((0.0, 0.0, 1.5, -8.0)) for _ in kinds],
        defaults=[rng.choice((None, None, 0.0, 2.5)) for _ in kinds],
        percents=[rng.random() < 0.25 for _ in kinds],
        bounds=bounds,
        queries=[rng.randint(0, 1) for _ in range(groups)],
        always=[rng.random() < 0.2 for _ in range(groups)],
        share=rng.choice(SHARES),
        ticks=list(ticks_of(rng, draw(st.integers(0, 40)), items, features, number)),
    )


def ticks_of(rng, count, items, features, number):
    """Walks, jumps, alternations, NULLs, deletes, ties and silence."""
    last = {i: [number(rng) for _ in range(features)] for i in range(items)}
    step = rng.choice((0.25, 1.0, 4.25))  # just over, on, and far beyond the bounds
    window, sign = -3, 1
    for _ in range(count):
        window += rng.random() < 0.2
        sign = -sign
        changed = [i for i in range(items) if rng.random() < rng.choice((0.2, 1.0))]
        rows = []
        for i in changed:
            kind = rng.random()
            if kind < 0.1:
                rows.append((i, None))
                continue
            if kind < 0.4:
                last[i] = [v + sign * step for v in last[i]]
            elif kind < 0.8:
                last[i] = [number(rng) for _ in range(features)]
            rows.append((i, [None if rng.random() < 0.15 else v for v in last[i]]))
        yield window, rows


def dyadic(rng):
    return rng.choice((-1, 1)) * rng.randint(0, 40) * 0.25


def wild(rng):
    """Any magnitude, with few or many bits."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice((-1, 1)) * 10.0 ** rng.randint(-100, 140)
    return rng.uniform(-1000, 1000) if kind < 0.7 else rng.gauss(0, 1) * 10.0 ** rng.randint(-6, 9)


def run(case, cuts=()):
    """The kernel over all ticks, in steps that end at the cuts; (log, state)."""
    wiring = case.wiring()
    state = kernel.new_state(wiring, case.items, case.query_count)
    log = []
    ends = [0, *sorted(cuts), len(case.ticks)]
    for first, last in itertools.pairwise(ends):
        state = kernel.State(*pickle.loads(pickle.dumps(tuple(state))))
        log += logged(kernel.step(wiring, state, case.rows(first, last)), first)
    return log, state


def logged(emitted, first=0):
    """Reports as (tick, group, diff, answers), in order of tick and group."""
    rows = zip(emitted.tick, emitted.group, emitted.diff, emitted.answer)
    return sorted(
        (int(t) + first, int(g), int(d), [None if np.isnan(x) else float(x) for x in a]) for t, g, d, a in rows
    )


@settings(max_examples=300, deadline=None)
@given(cases())
def test_reports_and_counters_are_the_oracles(case):
    log, state = run(case)
    oracle = Oracle(case)
    assert log == sorted(oracle.log)
    counts, figures = kernel.counted(case.wiring(), state)
    assert counts.tolist() == oracle.counts.tolist()
    assert figures[:, kernel.MAX_ERROR].tolist() == oracle.max_error.tolist()
    assert figures[:, kernel.WORST_SHARE].tolist() == oracle.worst_share.tolist()


@settings(max_examples=200, deadline=None)
@given(cases())
def test_fidelity_holds_in_every_prefix_of_every_window(case):
    """Checked on the kernel's own log: what is in force against what is true, tick by tick."""
    log, _ = run(case)
    oracle = Oracle(case)
    in_force, counted, window = {}, {}, None
    for tick, (here, _) in enumerate(case.ticks):
        if here != window:
            window, counted = here, {}
        for _, group, diff, answers in (entry for entry in log if entry[0] == tick):
            if diff == 1:
                in_force[group] = answers
            else:
                del in_force[group]
        for group, truth in enumerate(oracle.truths[tick]):
            assert (group in in_force) == (truth.rows > 0 or case.always[group])
            if group in in_force:
                good, ticks = counted.get(group, (0, 0))
                counted[group] = good + is_within(oracle, group, in_force[group], truth), ticks + 1
        for good, ticks in counted.values():
            assert Fraction(good, ticks) >= Fraction(str(case.share))


@settings(max_examples=300, deadline=None)
@given(cases(exact=False))
def test_the_bound_holds_in_exact_arithmetic(case):
    """Any magnitudes: where the bound is above what doubles can tell apart, it holds without any tolerance."""
    case.share = 1.0
    log, _ = run(case)
    oracle = Oracle(case)
    in_force = {}
    for tick in range(len(case.ticks)):
        for _, group, diff, answers in (entry for entry in log if entry[0] == tick):
            in_force[group] = answers
            if diff == -1:
                del in_force[group]
        for group, truth in enumerate(oracle.truths[tick]):
            assert (group in in_force) == (truth.rows > 0 or case.always[group])
            if group in in_force:
                assert is_within(oracle, group, in_force[group], truth)


def is_within(oracle, group, answers, truth):
    """Whether a reported row keeps its promise; below what doubles can tell apart, it need only be that close."""
    case = oracle.case
    for a, (reported, value) in enumerate(zip(answers, truth.value)):
        if reported is None or value is None:
            if reported is not value:
                return False
            continue
        bound = Fraction(case.bounds[group][a]) * (abs(Fraction(reported)) if case.percents[a] else 1)
        blur = Fraction(oracle.allowances(truth, answers)[a])
        if abs(Fraction(reported) - value) > max(bound, blur):
            return False
    return True


@settings(max_examples=150, deadline=None)
@given(cases(exact=False), st.lists(st.integers(0, 40), max_size=6))
def test_steps_can_be_cut_anywhere(case, cuts):
    whole, one = run(case)
    parts, two = run(case, [min(c, len(case.ticks)) for c in cuts])
    assert whole == parts
    for name, a, b in zip(kernel.State._fields, one, two):
        if name not in ("touched", "pending", "misses"):  # what is behind their counters is left over
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


@settings(max_examples=150, deadline=None)
@given(cases())
def test_sums_made_anew_are_the_sums_kept(case):
    wiring = case.wiring()
    _, kept = run(case)
    anew = kernel.State(*(a.copy() for a in kept))
    kernel.sum_anew(wiring, anew)
    assert (anew.high + anew.low).tolist() == (kept.high + kept.low).tolist()
    for name in ("size", "count", "rows"):
        assert getattr(anew, name).tolist() == getattr(kept, name).tolist(), name
    kernel.touch_all(anew)
    one_more = Case(**{**vars(case), "ticks": [(99, [])]}).rows()
    assert logged(kernel.step(wiring, anew, one_more)) == logged(kernel.step(wiring, kept, one_more))


@settings(max_examples=100, deadline=None)
@given(cases(exact=False))
def test_sums_of_any_magnitude_made_anew_are_close(case):
    _, kept = run(case)
    anew = kernel.State(*(a.copy() for a in kept))
    kernel.sum_anew(case.wiring(), anew)
    error = np.abs((anew.high - kept.high) + (anew.low - kept.low))
    assert (error <= 2.0**-98 * kept.size).all()


# ---------------------------------------------------------------- by hand


def one_item(ticks, bound=1.0, kind=SUM, weight=1.0, share=1.0, percent=False, always=False, default=None):
    """One item, one feature, one group, one answer."""
    return Case(
        items=1, features=1, values=[(0, (0,))], flags=[(), (0,)],
        value_edges=[(0, 0, 0, 0, weight)],
        flag_edges=[(0, 0, ROWS_TOTAL, 0, -1, 1.0), (0, 1, COUNT_TOTAL, 0, 0, 1.0)],
        kinds=[kind], offsets=[0.0], defaults=[default], percents=[percent], bounds=[[bound]],
        queries=[0], always=[always], share=share,
        ticks=[(w, [] if v == "-" else [(0, None if v == "x" else [v])]) for w, v in ticks],
    )  # fmt: skip


def answers(case):
    return [(t, d, a[0]) for t, _, d, a in run(case)[0]]


def in_one_window(*values):
    return [(0, v) for v in values]


def test_a_report_when_the_bound_is_left_and_not_before():
    case = one_item(in_one_window(10.0, 10.9, 11.1, 10.2, "-", 9.9, 12.2))
    assert answers(case) == [(0, 1, 10.0), (2, 1, 11.1), (5, 1, 9.9), (6, 1, 12.2)]


def test_a_group_vanishes_and_comes_back():
    case = one_item(in_one_window("-", 5.0, "x", "x", 5.0, "x"))
    assert answers(case) == [(1, 1, 5.0), (2, -1, 5.0), (4, 1, 5.0), (5, -1, 5.0)]


def test_null_is_told_whatever_the_bound():
    assert answers(one_item(in_one_window(5.0, None, 5.0), bound=1e9)) == [(0, 1, 5.0), (1, 1, None), (2, 1, 5.0)]
    assert answers(one_item(in_one_window(5.0, None), bound=1e9, default=5.0)) == [(0, 1, 5.0)]
    assert answers(one_item(in_one_window(5.0, None), bound=0.0, kind=COUNT)) == [(0, 1, 1.0), (1, 1, 0.0)]


def test_a_global_aggregate_answers_from_the_first_tick():
    assert answers(one_item(in_one_window("-", "-", 3.0), always=True)) == [(0, 1, None), (2, 1, 3.0)]


def test_percent_is_of_the_value_last_reported():
    assert answers(one_item(in_one_window(100.0, 109.0, 91.0, 110.5, 120.0), bound=0.1, percent=True)) == [
        (0, 1, 100.0),
        (3, 1, 110.5),
    ]
    assert answers(one_item(in_one_window(0.0, 1e-300), bound=0.1, percent=True)) == [(0, 1, 0.0), (1, 1, 1e-300)]


@pytest.mark.parametrize(("share", "reports"), [(1.0, 10), (0.9, 9), (0.8, 8), (0.5, 5)])
def test_fidelity_saves_exactly_its_share_of_ten_ticks(share, reports):
    """A value that leaves the bound at every tick; the first tick is the first answer."""
    assert len(answers(one_item(in_one_window(*(10.0 * i for i in range(10))), share=share))) == reports


def test_fidelity_counts_a_new_life_anew():
    """Misses of a group that vanished do not make the share of its next life wrong."""
    case = one_item(in_one_window(0.0, 5.0, 0.0, 5.0, "x", 0.0, 5.0, 0.0, 9.0), share=0.5)
    _, state = run(case)
    _, figures = kernel.counted(case.wiring(), state)
    assert figures[0, kernel.WORST_SHARE] >= 0.5
    assert state.clock[kernel.MISSED] <= 1  # a group is listed once, however many lives it has in a window
    assert figures.tolist() == [[Oracle(case).max_error[0], Oracle(case).worst_share[0]]]


def test_a_spike_leaves_nothing_behind():
    """1e17 comes and goes beside 0.1: a plain running sum would keep the rounding of both."""
    case = one_item(in_one_window(0.1, 1e17, 0.1, 1e17, 0.1), bound=0.0)
    assert [a for _, _, a in answers(case)] == [0.1, 1e17, 0.1, 1e17, 0.1]


def test_many_small_steps_add_up():
    """The sum kept is the sum of what is in force, however long the way: 0.1 has no end in binary."""
    n = 200_000
    case = one_item([])
    wiring = case.wiring()
    state = kernel.new_state(wiring, 1, 1)
    values = np.round(np.random.default_rng(5).normal(0, 1e6, n), 1)
    rows = kernel.Rows(
        np.arange(n + 1),
        np.zeros(n, np.int32),
        np.ones(n, np.uint64),
        np.zeros(n, np.uint8),
        values[:, None],
        np.zeros(n, np.int64),
    )
    kernel.step(wiring, state, rows)
    assert state.high[0] + state.low[0] == values[-1]
