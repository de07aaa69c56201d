"""Source aggregation: where one site holds all items of an answer, it may filter their sum as one item.

Composite or not is chosen for the answers of one component together, by the law of random walks: a filter of width W
over changes of second moment v sends v / (W/2)² a tick. A composite has the whole bound for the variance of the sum;
its members are free of that answer's bound, and still serve the other answers they are in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from deadband.compiler.planning.adaptive_filter import random_walk
from deadband.compiler.planning.cost_curves import Curves
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.source_aggregates import Composites
from deadband.runtime.operators.adaptive_filter import State, rewire
from deadband.runtime.operators.filter_wiring import Book, Table
from deadband.runtime.operators.wiring import columns_of

__all__ = ["chosen", "compose", "composites_of", "moments_of", "padded_history"]

FLIPS = 50  # answers of one component that are tried one by one


def compose(state: State, variance: NDArray | None) -> bool:
    """Puts items together where that is cheaper now; true when that is not what it was. variance: None: all equal."""
    book = state.book
    if not book.plans[0].shape.stream.source_by or book.plans[0].method == "none":
        return False
    before = book.composite["target"]
    _take_apart(book)
    filters = len(book.number) * len(book.features)
    rewire(state)
    taken = chosen(state, np.ones(filters) if variance is None else variance)
    _put_together(book, taken)
    rewire(state)
    return not np.array_equal(taken, before)


def _take_apart(book: Book) -> None:
    """The book as if there were no composites; their numbers stay theirs."""
    real = ~np.isin(book.value["item"], book.composite["item"])
    book.value = Table({name: column[real] for name, column in book.value.columns.items()})
    member, target = book.member, book.composite["target"]
    book.value.add(
        item=member["item"], slot=member["slot"], target=target[member["composite"]], weight=member["weight"]
    )
    book.member = Table({name: column[:0] for name, column in member.columns.items()})
    book.composite = Table({name: column[:0] for name, column in book.composite.columns.items()})


def _put_together(book: Book, taken: NDArray) -> None:
    """The sums of these targets become items of their own, each with feature 0."""
    if not len(taken):
        return
    slot = (0, 1)
    if slot not in book.slots:
        book.slots.append(slot)
    of = np.full(len(book.target), -1)
    of[taken] = np.arange(len(taken))
    mine = of[book.value["target"]] >= 0
    sites = np.full(len(taken), -1)
    sites[of[book.value["target"][mine]]] = book.site[book.value["item"][mine]]
    book.member.add(
        item=book.value["item"][mine],
        slot=book.value["slot"][mine],
        composite=of[book.value["target"][mine]],
        weight=book.value["weight"][mine],
    )
    book.value = Table({name: column[~mine] for name, column in book.value.columns.items()})
    new = [t for t in taken if ("__composite", int(t)) not in book.number]
    book.number.update({("__composite", int(t)): len(book.number) + k for k, t in enumerate(new)})
    book.cost = np.append(book.cost, np.ones(len(new)))
    book.rate = np.append(book.rate, np.zeros(len(new)))
    book.site = np.append(book.site, np.full(len(new), -1))
    number = np.array([book.number["__composite", int(t)] for t in taken])
    book.composite.add(item=number, target=taken, site=sites)
    book.value.add(
        item=number, slot=np.full(len(taken), book.slots.index(slot)), target=taken, weight=np.ones(len(taken))
    )


def composites_of(book: Book) -> Composites | None:
    """Which items add to which composites, for rows numbered as in the book; None: there are none."""
    if not len(book.composite):
        return None
    values = [k for k, (feature, _) in enumerate(book.slots) if feature is not None]
    local = np.zeros(len(book.slots), np.int64)
    local[values] = np.arange(len(values))
    start, order = columns_of(
        book.member["item"] * len(values) + local[book.member["slot"]], len(book.number) * len(values)
    )
    return Composites(
        feature=np.array([book.slots[k][0] for k in values], np.int64),
        needs=np.array([book.slots[k][1] for k in values], np.uint64),
        start=start,
        composite=book.member["composite"][order],
        weight=book.member["weight"][order],
        number=book.composite["item"],
    )


def padded_history(history: Curves | None, filters: int) -> Curves | None:
    """Curves for composites too; each is alone in its answer, so that any curve gives it the whole bound."""
    if history is None or len(history.width) >= filters:
        return history
    rows = np.append(np.arange(len(history.width)), np.zeros(filters - len(history.width), np.int64))
    return history.of(rows)


def moments_of(history: Curves) -> NDArray:
    """The second moment of the changes that would give each curve its rates: the middle of what its points say."""
    with np.errstate(invalid="ignore"):
        found = np.where(history.rate > 0, history.rate * (history.width / 2) ** 2, np.nan)
    known = np.isfinite(found).any(axis=1)
    moments = np.zeros(len(found))
    moments[known] = np.nanmedian(found[known], axis=1)
    return moments


def chosen(state: State, variance: NDArray) -> NDArray:
    """The targets that are filtered as one item at their site."""
    book, features = state.book, len(state.book.features)
    feature = np.array([-1 if f is None else f for f, _ in book.slots])[book.value["slot"]]
    filters = book.value["item"] * features + feature
    load = csr_matrix(
        (np.abs(book.value["weight"]), (book.value["target"], filters)),
        shape=(len(book.target), len(book.number) * features),
    )
    kind = state.wiring.cell_kind[book.target["cell"]]
    site = book.site[book.value["item"]]
    lowest, highest = np.full(len(book.target), np.iinfo(np.int64).max), np.full(len(book.target), -1)
    np.minimum.at(lowest, book.value["target"], site)
    np.maximum.at(highest, book.value["target"], site)
    several = np.diff(load.indptr) > 1
    fixed = state.wiring.cell_percent[book.target["cell"]] == 0
    linear = (kind == fs.SUM) | (kind == fs.AVG)
    fit = np.flatnonzero(several & fixed & linear & (lowest == highest) & (lowest >= 0))
    if not len(fit):
        return fit
    bound = state.wiring.cell_bound[book.target["cell"]]
    percent = state.wiring.cell_percent[book.target["cell"]] == 1
    bound = np.where(percent, 1e6 * (bound[~percent].max(initial=0.0) + 1.0), bound)  # not known before the answer is
    members = np.diff(load.indptr)
    budget = np.where(kind == fs.AVG, bound * members, bound)
    _, label = connected_components(load.T @ load + csr_matrix((load.shape[1],) * 2), directed=False)
    component = label[load.indices[load.indptr[fit]]]
    found = [_best(load, budget, variance, fit[component == c]) for c in np.unique(component)]
    return np.sort(np.concatenate(found))


def _best(load: csr_matrix, budget: NDArray, variance: NDArray, fit: NDArray) -> NDArray:
    """The subset of these targets that is cheapest as composites: all, none, or what single flips lead to."""
    near = np.unique(load[fit].indices)
    targets = np.flatnonzero(np.diff(load[:, near].indptr))
    part, room, moment = load[targets][:, near], budget[targets], variance[near]
    where = np.searchsorted(targets, fit)
    together = np.asarray(part.multiply(part) @ moment)
    with np.errstate(divide="ignore"):
        alone = np.where(together > 0, together / np.maximum(room / 2, 1e-300) ** 2, 0.0)

    def cost(taken: NDArray) -> float:
        kept = np.ones(len(room), bool)
        kept[where[taken]] = False
        width = random_walk(moment, np.ones(len(near)), part[kept], room[kept])
        with np.errstate(divide="ignore"):
            rate = np.where(moment > 0, moment / np.maximum(width / 2, 1e-300) ** 2, 0.0)
        return float(rate[np.isfinite(width)].sum() + alone[where[taken]].sum())

    best = min((np.zeros(len(fit), bool), np.ones(len(fit), bool)), key=cost)
    least = cost(best)
    for k in range(len(fit) if len(fit) <= FLIPS else 0):
        other = best.copy()
        other[k] = not other[k]
        now = cost(other)
        if now < least:
            best, least = other, now
    return fit[best]
