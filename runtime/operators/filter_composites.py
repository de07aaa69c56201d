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

from deadband.compiler.planning.adaptive_filter import Curves, random_walk
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.operators.adaptive_filter import State, rewire
from deadband.runtime.operators.filter_wiring import Book, Table

__all__ = ["compose", "composite_edges", "moments_of", "padded_history"]

FLIPS = 50  # answers of one component that are tried one by one


def compose(state: State, variance: NDArray | None) -> int:
    """Puts items together where that is cheaper; the number of composites. variance: per filter, None: all equal."""
    if not state.book.plans[0].shape.stream.source_by or state.book.plans[0].method == "none":
        return 0
    filters = len(state.book.number) * len(state.book.features)
    chosen = _chosen(state, state.book.site, np.ones(filters) if variance is None else variance)
    if not len(chosen):
        return 0
    book = state.book
    first, (feature, needs) = len(book.number), (0, 1)
    if (feature, needs) not in book.slots:
        book.slots.append((feature, needs))
    number = np.full(len(book.target), -1)
    number[chosen] = np.arange(len(chosen))
    mine = number[book.value["target"]] >= 0
    book.member = Table(
        {
            "item": book.value["item"][mine],
            "slot": book.value["slot"][mine],
            "composite": number[book.value["target"][mine]],
            "weight": book.value["weight"][mine],
        }
    )
    book.value = Table({name: column[~mine] for name, column in book.value.columns.items()})
    slot = np.full(len(chosen), book.slots.index((feature, needs)))
    book.value.add(item=first + np.arange(len(chosen)), slot=slot, target=chosen, weight=np.ones(len(chosen)))
    for t in chosen:
        book.number["__composite", int(t)] = len(book.number)
    book.cost = np.append(book.cost, np.ones(len(chosen)))
    book.rate = np.append(book.rate, np.zeros(len(chosen)))
    book.site = np.append(book.site, np.full(len(chosen), -1))
    rewire(state)
    return len(chosen)


def composite_edges(book: Book) -> tuple[tuple[NDArray, NDArray], tuple[NDArray, NDArray, NDArray], int]:
    """What `with_composites` wants: slots, edges from items to composites, and the first composite's number."""
    values = [k for k, (feature, _) in enumerate(book.slots) if feature is not None]
    local = np.zeros(len(book.slots), np.int64)
    local[values] = np.arange(len(values))
    first = len(book.number) - len(np.unique(book.member["composite"]))
    slot = book.member["item"] * len(values) + local[book.member["slot"]]
    order = np.argsort(slot, kind="stable")
    start = np.zeros(first * len(values) + 1, np.int64)
    np.cumsum(np.bincount(slot, minlength=first * len(values)), out=start[1:])
    features = np.array([book.slots[k][0] for k in values], np.int64)
    needs = np.array([book.slots[k][1] for k in values], np.uint64)
    return (features, needs), (start, book.member["composite"][order], book.member["weight"][order]), first


def padded_history(history: Curves | None, filters: int) -> Curves | None:
    """Curves for composites too; each is alone in its answer, so that any curve gives it the whole bound."""
    if history is None or len(history.width) == filters:
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


def _chosen(state: State, sites: NDArray, variance: NDArray) -> NDArray:
    """The targets that are filtered as one item at their site."""
    book, features = state.book, len(state.book.features)
    feature = np.array([-1 if f is None else f for f, _ in book.slots])[book.value["slot"]]
    filters = book.value["item"] * features + feature
    load = csr_matrix(
        (np.abs(book.value["weight"]), (book.value["target"], filters)),
        shape=(len(book.target), len(book.number) * features),
    )
    kind = state.wiring.cell_kind[book.target["cell"]]
    site = sites[book.value["item"]]
    lowest, highest = np.full(len(book.target), np.iinfo(np.int64).max), np.full(len(book.target), -1)
    np.minimum.at(lowest, book.value["target"], site)
    np.maximum.at(highest, book.value["target"], site)
    several = np.diff(load.indptr) > 1
    fit = np.flatnonzero(several & (lowest == highest) & (lowest >= 0) & ((kind == fs.SUM) | (kind == fs.AVG)))
    if not len(fit):
        return fit
    bound = state.wiring.cell_bound[book.target["cell"]]
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
