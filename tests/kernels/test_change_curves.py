"""Statistics of changes against plain loops, for any numbers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadband.runtime.kernels.change_curves import change_curves

NUMBERS = st.one_of(
    st.floats(-1e299, 1e299),
    st.integers(-3, 3).map(float),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e299, -1e299]),
)


def sent(values, width):
    count, centre = 0, values[0] if values else 0.0
    for x in values[1:]:
        if abs(x - centre) > 0.5 * width:
            count, centre = count + 1, x
    return count


@settings(deadline=None, max_examples=300)
@given(st.lists(st.lists(NUMBERS, max_size=30), max_size=5))
def test_what_is_counted_is_what_filters_would_send(items):
    start = np.cumsum([0, *map(len, items)]).astype(np.int64)
    found = change_curves(np.array([x for item in items for x in item]), start, 12)
    assert found.widths.shape == found.counts.shape == (len(items), 12)
    assert np.isfinite(found.widths).all() and (found.widths > 0).all() and (np.diff(found.widths, axis=1) > 0).all()
    for i, values in enumerate(items):
        moves = [abs(b - a) for a, b in pairwise(values) if a != b]
        assert found.updates[i] == len(values) and found.changes[i] == len(moves)
        assert found.absolute[i] == pytest.approx(sum(moves), rel=1e-9)
        assert found.level[i] == pytest.approx(sum(v / len(values) for v in values), rel=1e-6, abs=1e290)
        assert found.counts[i].tolist() == [sent(values, w) for w in found.widths[i]]


def test_widths_cover_from_nearly_all_changes_to_next_to_none():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=5000) * 1e-6)
    noise = rng.normal(size=5000) * 1e6
    bursts = np.cumsum(rng.normal(size=5000) * np.where(rng.random(5000) < 0.01, 1e5, 1.0))
    ramp = np.arange(5000.0)
    coin = rng.integers(0, 2, 5000).astype(float)
    items = (walk, noise, bursts, ramp, coin)
    start = np.cumsum([0, *map(len, items)]).astype(np.int64)
    found = change_curves(np.concatenate(items), start, 12)
    assert (found.counts[:, 0] >= 0.75 * found.changes).all()
    assert (found.counts[:, -1] <= 3).all()
    assert (np.diff(found.counts[:3], axis=1) <= 0).all()
