"""Weights as the kernel wants them: sparse columns per item, groups numbered, outputs per group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deadband.compiler.bind.template import QUERY
from deadband.compiler.errors import DeadbandError
from deadband.compiler.lower.weights import ITEM
from deadband.compiler.physical import AdaptiveFilter, Edge, EmitOnDrift
from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.sources.batch import encoded

__all__ = ["Edges", "Groups", "columns_of", "edges_of", "no_edges", "numbered", "wire"]

_KINDS = {"SUM": kernel.SUM, "AVG": kernel.AVG, "COUNT": kernel.COUNT}
_TOTALS = {"rows": kernel.ROWS_TOTAL, "count": kernel.COUNT_TOTAL, "sum": kernel.SUM_TOTAL}


@dataclass(frozen=True)
class Groups:
    """The standing answers, one row each: QUERY and g0, … tell groups apart; o0, … are what users see of them."""

    rows: pa.Table

    @property
    def query(self) -> NDArray:
        return np.array(self.rows[QUERY], np.int32)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Edges:
    """Value edges and flag edges as flat arrays, slots numbered per item."""

    value_slot: NDArray
    value_target: NDArray
    value_weight: NDArray
    flag_slot: NDArray
    flag_target: NDArray
    flag_total: NDArray
    flag_weight: NDArray

    def joined(self, other: Edges) -> Edges:
        return Edges(*(np.concatenate((a, b)) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def edges_of(plan: EmitOnDrift | AdaptiveFilter, weights: pa.Table, groups: Groups) -> tuple[Edges, Groups]:
    """The edges that rows of the weights query stand for, and the groups, new ones at the end."""
    if QUERY not in weights.column_names:
        weights = weights.append_column(QUERY, pa.array(np.zeros(len(weights), np.int32)))
    group, groups = numbered(plan, weights, groups)
    item = weights[ITEM].to_numpy()
    value_slots = [i for i, s in enumerate(plan.slots) if s.feature is not None]
    flag_slots = [i for i, s in enumerate(plan.slots) if s.feature is None]
    answers = len(plan.shape.answers)
    value: list[tuple[NDArray, ...]] = []
    flag: list[tuple[NDArray, ...]] = []
    for edge in plan.edges:
        weight = _finite(plan, weights, edge)
        used = np.flatnonzero(weight != 0)
        target = group[used] if edge.total == "rows" else group[used] * answers + edge.answer
        if plan.slots[edge.slot].feature is not None:
            value.append((item[used] * len(value_slots) + value_slots.index(edge.slot), target, weight[used]))
        else:
            total = np.full(len(used), _TOTALS[edge.total], np.int8)
            flag.append((item[used] * len(flag_slots) + flag_slots.index(edge.slot), target, total, weight[used]))
    value_parts = (
        [np.concatenate(p) for p in zip(*value, strict=True)] if value else list(vars(no_edges()).values())[:3]
    )
    return Edges(*value_parts, *(np.concatenate(p) for p in zip(*flag, strict=True))), groups


def no_edges() -> Edges:
    number, none = np.zeros(0), np.zeros(0, np.int64)
    return Edges(none, none, number, none, none, np.zeros(0, np.int8), number)


def wire(plan: EmitOnDrift, edges: Edges, query: NDArray, items: int) -> kernel.Wiring:
    """The arrays of the kernel from flat edges; query has one entry per group."""
    values = [s for s in plan.slots if s.feature is not None]
    flags = [s for s in plan.slots if s.feature is None]
    answers = plan.shape.answers
    value_start, value_order = columns_of(edges.value_slot, items * len(values))
    flag_start, flag_order = columns_of(edges.flag_slot, items * len(flags))
    percents = [b is not None and b.percent for b in plan.group.first.promise.bounds]
    return kernel.Wiring(
        value_feature=np.array([s.feature for s in values], np.int64),
        value_needs=np.array([_bits(s.needs) for s in values], np.uint64),
        value_start=value_start,
        value_target=edges.value_target[value_order].astype(np.int32),
        value_weight=edges.value_weight[value_order],
        flag_needs=np.array([_bits(s.needs) for s in flags], np.uint64),
        flag_start=flag_start,
        flag_target=edges.flag_target[flag_order].astype(np.int32),
        flag_total=edges.flag_total[flag_order],
        flag_weight=edges.flag_weight[flag_order],
        kind=np.array([_KINDS[a.kind] for a in answers], np.int8),
        offset=np.array([a.offset for a in answers]),
        default=np.array([np.nan if a.default is None else a.default for a in answers]),
        percent=np.array(percents, np.uint8),
        bound=_bounds(plan, query),
        query=query,
        always=np.full(len(query), 0 if plan.shape.groups else 1, np.uint8),
        share=np.array([plan.group.first.promise.share]),
    )


def _bounds(plan: EmitOnDrift, query: NDArray) -> NDArray:
    """The bound of every answer of every group."""
    per_query = np.array([[0.0 if b is None else b.amount for b in q.promise.bounds] for q in plan.group.queries])
    return per_query[query].reshape(-1)


def _finite(plan: EmitOnDrift | AdaptiveFilter, weights: pa.Table, edge: Edge) -> NDArray:
    """A column of weights, 0 where there is none."""
    weight = weights[edge.column].cast(pa.float64()).fill_null(0.0).to_numpy()
    if not np.isfinite(weight).all():
        raise DeadbandError(
            f"{plan.group.first.name} has weights that are not finite",
            detail=f"in {plan.shape.answers[edge.answer].text}",
            hint="leave rows of static tables with NaN or infinite values out, with WHERE",
        )
    return weight


def numbered(plan: EmitOnDrift | AdaptiveFilter, weights: pa.Table, groups: Groups) -> tuple[NDArray, Groups]:
    """The group of each row of the weights query; groups not seen before come last, in order."""
    if not plan.shape.groups:  # one group per query, there from the start
        return weights[QUERY].to_numpy().astype(np.int64), groups
    identity = [QUERY, *(f"g{i}" for i in range(len(plan.shape.groups)))]
    old = len(groups)
    rows = weights.select([c for c in weights.column_names if c[0] in "go" or c == QUERY])
    both = pa.concat_tables([groups.rows.select(rows.column_names), rows]) if old else rows
    code, first = encoded(both.select(identity))
    is_new = first >= old
    number = np.empty(len(first), np.int64)
    number[is_new] = np.arange(old, old + is_new.sum())
    number[~is_new] = first[~is_new]
    return number[code[old:]], Groups(both.take(np.concatenate((np.arange(old), first[is_new]))).combine_chunks())


def columns_of(slot: NDArray, slots: int) -> tuple[NDArray, NDArray]:
    """Compressed columns: where each slot's edges start, and the order that sorts them."""
    order = np.argsort(slot, kind="stable")
    start = np.zeros(slots + 1, np.int64)
    np.cumsum(np.bincount(slot, minlength=slots), out=start[1:])
    return start, order


def _bits(features: tuple[int, ...]) -> int:
    return sum(1 << f for f in features)
