"""The published adjustment against a slow obvious version, and its burden targets against dense linear algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from deadband.runtime.kernels.burden import adjust, burden_targets


def wired(dense):
    """CSC by item and CSR by target."""
    rows, columns = csr_matrix(dense), csr_matrix(dense.T)
    return (
        columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data.astype(float),
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(float),
    )  # fmt: skip


def only_alone(dense):
    """Items in no target of several items keep their width."""
    shared = (dense > 0).sum(axis=1) > 1
    return (~(dense[shared] > 0).any(axis=0)).astype(np.uint8)


def oracle_targets(dense, burden):
    """Least squares of T_j = mean_i (B_i - Σ_{k≠j} |w_ik| T_k) / |w_ij|."""
    inverse = np.divide(1.0, dense, out=np.zeros_like(dense), where=dense > 0)
    size = np.maximum((dense > 0).sum(axis=1), 1)
    return np.linalg.lstsq(inverse @ dense.T / size[:, None], inverse @ burden / size, rcond=None)


@st.composite
def workloads(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(0, 9)), draw(st.integers(0, 6))
    dense = (rng.random((m, n)) < draw(st.sampled_from((0.3, 0.7, 1.0)))).astype(float)
    if draw(st.booleans()):
        dense *= np.exp(rng.normal(0, draw(st.sampled_from((0.3, 2.0))), (m, n)))
    scale = 10.0 ** draw(st.sampled_from((-8, 0, 8)))
    budget = rng.uniform(0, 10, m) * scale * rng.choice([0.0, 0.01, 1, 1], m)
    width = np.full(n, np.inf)
    for i in range(n):
        for t in np.flatnonzero(dense[:, i]):
            width[i] = min(width[i], budget[t] / dense[t].sum() * (1 - 1e-14))
    return dense, budget, width, rng


@settings(max_examples=200, deadline=None)
@given(workloads())
def test_widths_hold_over_many_periods(workload):
    dense, budget, width, rng = workload
    wiring, fixed, targets = wired(dense), only_alone(dense), np.zeros(len(budget))
    cost = rng.choice([1.0, 3.0], len(width))
    for period in range(30):
        before = width.copy()
        sent = rng.integers(0, 11, len(width)) * (rng.random(len(width)) < 0.5)
        grew = adjust(*wiring, budget, width, sent, cost, 10.0, fixed, targets, period)
        assert np.isfinite(targets).all() and not np.isnan(width).any()
        finite = np.where(np.isfinite(width), width, 0.0)
        assert (dense @ finite <= budget).all() and (dense[:, ::-1] @ finite[::-1] <= budget).all()
        assert (width[fixed == 1] == before[fixed == 1]).all() and (grew[fixed == 1] == 0).all()
        shrunk = before * (1 - 0.05)
        assert (width[(fixed == 0) & (grew == 0)] == shrunk[(fixed == 0) & (grew == 0)]).all()
        assert (width[grew == 1] > shrunk[grew == 1]).all()
        left = budget - dense @ finite  # nothing is left that somebody could take
        for i in np.flatnonzero(fixed == 0):
            on = dense[:, i] > 0
            assert (left[on] <= 2e-9 * budget[on]).any()


@settings(max_examples=200, deadline=None)
@given(workloads())
def test_targets_solve_their_equations(workload):
    dense, _, _, rng = workload
    shared = (dense > 0).sum(axis=1) > 1
    dense = dense[shared]
    burden, targets = rng.uniform(0, 5, dense.shape[1]), np.zeros(len(dense))
    burden_targets(*wired(dense), np.zeros(len(burden), np.uint8), burden, targets)
    inverse = np.divide(1.0, dense, out=np.zeros_like(dense), where=dense > 0)
    size = np.maximum((dense > 0).sum(axis=1), 1)
    wanted, *_ = oracle_targets(dense, burden)

    def residual(t):
        return np.linalg.norm(inverse @ (burden - dense.T @ t) / size)

    assert np.isfinite(targets).all()
    assert residual(targets) <= residual(np.zeros(len(dense))) + 1e-9
    assert residual(targets) <= residual(wanted) + 0.15 * np.linalg.norm(inverse @ burden / size)


@pytest.mark.parametrize("seed", range(10))
def test_targets_with_equal_weights_converge(seed):
    rng = np.random.default_rng(seed)
    dense = (rng.random((20, 60)) < 0.2).astype(float)
    burden, targets = rng.uniform(0, 5, 60), np.zeros(20)
    burden_targets(*wired(dense), np.zeros(60, np.uint8), burden, targets)
    assert np.allclose(targets, oracle_targets(dense, burden)[0], atol=0.01)


def test_growth_goes_to_the_most_burdened():
    dense, width = np.ones((1, 4)), np.full(4, 1.0)
    grew = adjust(
        *wired(dense),
        np.array([4.0]),
        width,
        np.array([0, 1, 9, 2]),
        np.ones(4),
        10.0,
        np.zeros(4, np.uint8),
        np.zeros(1),
        0,
    )
    assert grew.tolist() == [0, 0, 1, 0] and np.allclose(width, [0.95, 0.95, 1.15, 0.95])


def test_ties_are_random_but_repeatable():
    dense, grown = np.ones((1, 6)), []
    for seed in [*range(60), 7]:
        width = np.full(6, 1.0)
        grew = adjust(
            *wired(dense),
            np.array([6.0]),
            width,
            np.zeros(6),
            np.ones(6),
            10.0,
            np.zeros(6, np.uint8),
            np.zeros(1),
            seed,
        )
        grown.append(int(np.flatnonzero(grew)[0]))
    assert set(grown) == set(range(6)) and grown[7] == grown[-1]


def test_a_width_of_zero_grows_back():
    dense, width = np.ones((1, 2)), np.array([0.0, 1.0])
    grew = adjust(
        *wired(dense),
        np.array([1.0]),
        width,
        np.array([10, 0]),
        np.ones(2),
        10.0,
        np.zeros(2, np.uint8),
        np.zeros(1),
        0,
    )
    assert grew.tolist() == [1, 0] and width[0] == pytest.approx(0.05)
