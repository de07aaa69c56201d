"""Widths: always feasible, never with room left that anybody could take, and as good as brute force and the LP."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from deadband.compiler.planning.adaptive_filter import allocate, random_walk, settle, uniform
from deadband.compiler.planning.cost_curves import BLENDS, Curves, blend_costs, blended, expected, grid, hull, smoothed


@st.composite
def problems(draw, most_items=8, most_targets=6):
    """A sparse load with empty rows and columns, zero budgets, flat curves, and scales from 1e-6 to 1e6."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(0, most_items)), draw(st.integers(0, most_targets))
    scale = 10.0 ** draw(st.sampled_from((-6, 0, 6)))
    dense = rng.uniform(0.1, 3, (m, n)) * (rng.random((m, n)) < draw(st.sampled_from((0.2, 0.6, 1.0))))
    if draw(st.booleans()):
        dense = (dense > 0).astype(float)
    budget = rng.uniform(0, 10, m) * scale * rng.choice([0.0, 0.01, 1, 1], m)
    cost = rng.choice([1.0, 1.0, 5.0], n)
    width = grid(rng.uniform(0.1, 10, n) * scale)
    steep = rng.uniform(0.2, 3, n)[:, None]
    rate = np.minimum((width / width[:, 3:4]) ** -steep * rng.uniform(0.5, 1.1, width.shape), 1.0) * 0.5
    rate *= rng.choice([0.0, 1.0, 1.0, 1.0], n)[:, None]
    if draw(st.booleans()) and n > 1:
        width[1], rate[1] = width[0], rate[0]
    return Curves(width, rate, rate.max(axis=1, initial=0.0)), cost, csr_matrix(dense), budget


def check(widths, load, budget, full=True):
    """No NaN, within budget as evaluated in any order, infinite exactly without targets; full: nobody can grow."""
    dense = load.toarray()
    assert not np.isnan(widths).any() and (widths >= 0).all()
    in_target = (dense > 0).any(axis=0)
    assert np.isinf(widths[~in_target]).all() and np.isfinite(widths[in_target]).all()
    finite = np.where(in_target, widths, 0.0)
    assert (load @ finite <= budget).all()
    for t in range(len(budget)):
        terms = dense[t] * finite
        assert sum(terms.tolist()) <= budget[t] and sum(terms[::-1].tolist()) <= budget[t]
    if full:
        left = budget - dense @ finite
        for i in np.flatnonzero(in_target):
            on = dense[:, i] > 0
            assert (left[on] <= 1e-9 * budget[on]).any()


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from(("exact", "dual", "auto")))
def test_allocated_widths_hold_and_fill(problem, method):
    curves, cost, load, budget = problem
    widths = allocate(curves, cost, load, budget, method)
    check(widths, load, budget)
    assert np.array_equal(widths, allocate(curves, cost, load, budget, method))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_uniform_and_random_walk_hold(problem):
    _, cost, load, budget = problem
    check(uniform(load, budget), load, budget, full=False)
    check(random_walk(np.ones(len(cost)), cost, load, budget), load, budget)
    check(random_walk(np.zeros(len(cost)), cost, load, budget), load, budget)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_exact_is_never_worse_than_uniform_and_dual(problem):
    curves, cost, load, budget = problem
    low = hull(curves)
    spent = {m: (cost * expected(low, allocate(curves, cost, load, budget, m))).sum() for m in ("exact", "dual")}
    # the program works on straight lines between points that are close together, not on the power laws of expected
    assert spent["exact"] <= (cost * expected(low, uniform(load, budget))).sum() * 1.03 + 1e-12
    assert spent["exact"] <= spent["dual"] * 1.03 + 1e-12


def test_dual_is_close_to_exact_on_many_items():
    rng = np.random.default_rng(1)
    n = 400
    load = csr_matrix((rng.uniform(0.2, 2, 10 * n), (np.repeat(np.arange(n), 10), rng.integers(0, n, 10 * n))))
    size, steep = np.exp(rng.normal(0, 1.5, n)), rng.uniform(0.3, 2.5, n)
    width = grid(size * 4)
    rate = 1 / (1 + (width / size[:, None]) ** steep[:, None])
    curves, budget = Curves(width, rate, rate[:, 0] * 1.2), load @ size * np.exp(rng.normal(0, 1, n)) * 2
    low, cost = hull(curves), np.ones(n)
    exact, dual = (expected(low, allocate(curves, cost, load, budget, m)).sum() for m in ("exact", "dual"))
    assert exact <= 1.001 * dual and dual <= 1.002 * exact


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_exact_against_brute_force_on_the_grid(seed):
    """With one target and curves already convex, no choice of grid widths beats the LP."""
    rng = np.random.default_rng(seed)
    width = np.sort(rng.uniform(0.1, 5, (3, 4)), axis=1) + np.arange(4) * 0.01
    rate = np.sort(rng.random((3, 4)), axis=1)[:, ::-1] * 0.9
    curves = hull(Curves(width, rate, np.ones(3)))
    budget = np.array([rng.uniform(1, 10)])
    load = csr_matrix(rng.uniform(0.2, 2, (1, 3)))
    found = expected(curves, allocate(curves, np.ones(3), load, budget, "exact")).sum()
    points = [list(zip([0, *width[i]], [1, *curves.rate[i]])) for i in range(3)]
    for choice in itertools.product(*points):
        if load.toarray()[0] @ [w for w, _ in choice] <= budget[0]:
            assert found <= sum(r for _, r in choice) * 1.05 + 1e-6


@settings(max_examples=100, deadline=None)
@given(problems())
def test_hull_is_convex_falling_and_below(problem):
    curves = problem[0]
    low = hull(curves)
    assert (low.rate <= curves.rate + 1e-12).all() and (low.rate >= 0).all()
    if len(low.width):
        slope = np.diff(np.column_stack([low.update_rate, low.rate]), axis=1) / np.diff(low.width, axis=1, prepend=0)
        assert (slope <= 0).all() and (np.diff(slope, axis=1) >= -1e-9 * np.abs(slope).max()).all()
    again = hull(low)
    assert np.allclose(again.rate, low.rate, rtol=1e-9, atol=1e-12)


def test_expected_meets_the_points_and_falls_as_a_power_law():
    width = grid(np.ones(2))
    curves = Curves(width, 0.1 * width**-1.5, np.full(2, 3.0))
    for g in range(width.shape[1]):
        assert np.allclose(expected(curves, width[:, g]), curves.rate[:, g])
    assert np.allclose(expected(curves, np.zeros(2)), 3.0)
    assert np.allclose(expected(curves, width[:, -1] * 8), 0.1 * (width[:, -1] * 8) ** -1.5)
    assert (expected(curves, np.full(2, np.inf)) == 0).all()


def test_random_walk_widths_follow_the_cube_root_of_variance():
    variance = np.array([1e-4, 8e-4, 27e-4])
    widths = random_walk(variance, np.ones(3), csr_matrix(np.ones((1, 3))), np.array([6.0]))
    lag = 2 * 0.583 * np.sqrt(variance)
    assert np.allclose((widths + lag) / (widths + lag)[0], [1, 2, 3], rtol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_random_walk_against_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    n, m = 10, 5
    dense = (rng.random((m, n)) < 0.35).astype(float)
    dense[0] = 1
    variance, budget = rng.uniform(0.1, 10, n) ** 2, rng.uniform(20, 100, m) * dense.sum(axis=1)
    load, cost = csr_matrix(dense), np.ones(n)

    def spent(w):
        return (variance / (w / 2 + 0.583 * np.sqrt(variance)) ** 2).sum()

    rest = {"type": "ineq", "fun": lambda w: budget - dense @ w}
    start = uniform(load, budget)
    other = minimize(spent, start, bounds=[(0, None)] * n, constraints=[rest], method="SLSQP", options={"maxiter": 500})
    assert spent(random_walk(variance, cost, load, budget)) <= 1.005 * other.fun


def test_single_item_targets_give_exactly_their_budget():
    load = csr_matrix([[2.0, 0, 0], [0.5, 0, 0], [0, 1, 1], [0, 0, 3.0]])
    curves = Curves(grid(np.ones(3)), np.full((3, 12), 0.1), np.full(3, 0.1))
    for method in ("exact", "dual"):
        widths = allocate(curves, np.ones(3), load, np.array([8.0, 1.0, 5.0, 3.0]), method)
        assert widths[0] == 2.0 and widths[2] <= 1.0 and widths[1] + widths[2] == pytest.approx(5.0)


def test_items_that_never_move_get_what_is_left():
    curves = Curves(grid(np.ones(2)), np.stack([np.zeros(12), np.linspace(1, 0, 12)]), np.array([0.0, 1.0]))
    widths = allocate(curves, np.ones(2), csr_matrix(np.ones((1, 2))), np.array([100.0]), "exact")
    assert widths[1] >= curves.width[1, -1] * 0.99 and widths.sum() == pytest.approx(100)


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from((0.0, 10.0, 1000.0, 1e6)))
def test_settled_widths_hold_and_pay(problem, horizon):
    curves, cost, load, budget = problem
    current, wanted = uniform(load, budget), allocate(curves, cost, load, budget)
    settled = settle(current, wanted, curves, cost, load, budget, 1.0, horizon)
    check(settled, load, budget, full=False)
    low = hull(curves)
    saved = horizon * (cost * (expected(low, current) - expected(low, settled))).sum()
    pushed = (settled != current).sum()
    assert pushed == 0 or saved > pushed
    if horizon == 0:
        assert np.array_equal(settled, current)


@pytest.mark.parametrize("horizon", [30, 100, 300, 3000])
def test_settle_is_better_than_all_or_nothing(horizon):
    """Two busy items, ten in the middle that gain little, two idle ones: the shorter the horizon, the fewer pushes."""
    n = 14
    size = np.array([2.0, 2.0] + [1.0] * 10 + [0.01] * 2)
    width = grid(np.full(n, 2.0), 24)
    curves = Curves(width, np.minimum(size[:, None] ** 2 / (width / 2 + 0.583 * size[:, None]) ** 2, 1), np.ones(n))
    load, budget, cost, low = csr_matrix(np.ones((1, n))), np.array([60.0]), np.ones(n), hull(curves)
    current = uniform(load, budget)
    wanted = allocate(curves, cost, load, budget)
    settled = settle(current, wanted, curves, cost, load, budget, 1.0, horizon)
    check(settled, load, budget, full=False)

    def net(widths):
        return horizon * (expected(low, current) - expected(low, widths)).sum() - (widths != current).sum()

    assert net(settled) >= max(net(wanted), 0) - 1e-9
    assert net(settled) > 0 or horizon < 100


def test_tighter_budgets_are_obeyed_at_once():
    load, curves = csr_matrix(np.ones((1, 2))), Curves(grid(np.ones(2)), np.full((2, 12), 0.1), np.ones(2))
    wanted = allocate(curves, np.ones(2), load, np.array([1.0]))
    assert np.array_equal(settle(np.array([5.0, 5.0]), wanted, curves, np.ones(2), load, np.array([1.0])), wanted)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e12, 1e150])
@pytest.mark.parametrize("method", ["exact", "dual"])
def test_scale_does_not_matter(scale, method):
    rng = np.random.default_rng(0)
    load = csr_matrix((rng.random((4, 6)) < 0.6) * rng.uniform(0.5, 2, (4, 6)))
    width, budget = grid(np.ones(6)), rng.uniform(1, 5, 4)
    rate = 1 / (1 + width ** rng.uniform(0.5, 2, (6, 1)))
    plain = allocate(Curves(width, rate, np.ones(6)), np.ones(6), load, budget, method)
    scaled = allocate(Curves(width * scale, rate, np.ones(6)), np.ones(6), load, budget * scale, method)
    check(scaled, load, budget * scale)
    assert np.allclose(scaled / scale, plain, rtol=1e-3, atol=1e-6)


def test_infinite_budgets_ask_for_nothing():
    load, curves = csr_matrix([[1.0, 1.0]]), Curves(grid(np.ones(2)), np.full((2, 12), 0.1), np.ones(2))
    assert np.isinf(allocate(curves, np.ones(2), load, np.array([np.inf]))).all()
    assert np.isinf(uniform(load, np.array([np.inf]))).all()


@settings(max_examples=100, deadline=None)
@given(problems())
def test_blends_hold_and_cost_what_they_cost(problem):
    curves, cost, load, budget = problem
    planned, fallback = allocate(curves, cost, load, budget), uniform(load, budget)
    for share in BLENDS:
        check(blended(planned, fallback, share), load, budget, full=False)
    spent = blend_costs(planned, fallback, curves, cost)
    assert spent[0] == pytest.approx((cost * expected(curves, fallback)).sum())
    assert spent[-1] == pytest.approx((cost * expected(curves, planned)).sum())


@settings(max_examples=100, deadline=None)
@given(problems(), st.sampled_from((10, 1000, 10**6)))
def test_smoothing_fades_with_evidence(problem, ticks):
    curves = problem[0]
    smooth = smoothed(curves, ticks)
    assert np.isfinite(smooth.rate).all() and (smooth.rate >= 0).all()
    sure = curves.rate * ticks > 2000
    assert np.allclose(smooth.rate[sure], curves.rate[sure], rtol=0.2)
    assert (smooth.rate[curves.rate.sum(axis=1) == 0] <= 0.01).all()


def test_smoothing_recovers_a_power_law_from_few_counts():
    rng = np.random.default_rng(0)
    width = grid(np.ones(200), 12, 1.7)
    truth = np.minimum(0.02 * width**-2.0, 1.0)
    counted = Curves(width, rng.poisson(truth * 500) / 500, np.ones(200))
    error = [np.abs(np.log((c.rate[:, 6] + 1e-4) / truth[:, 6])).mean() for c in (counted, smoothed(counted, 500))]
    assert error[1] < 0.7 * error[0]
