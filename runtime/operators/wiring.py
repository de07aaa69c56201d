"""Weights as the kernel wants them: sparse columns per item, groups numbered, outputs per group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from deadband.compiler.bind.template import QUERY
from deadband.compiler.lower.weights import ITEM
from deadband.compiler.physical import EmitOnDrift
from deadband.runtime.kernels import emit_on_drift as kernel

__all__ = ["Edges", "Groups", "edges_of", "no_edges", "wire"]

_KINDS = {"SUM": kernel.SUM, "AVG": kernel.AVG, "COUNT": kernel.COUNT}
_TOTALS = {"rows": kernel.ROWS_TOTAL, "count": kernel.COUNT_TOTAL, "sum": kernel.SUM_TOTAL}


@dataclass
class Groups:
    """The standing answers: one row per group, `query` says whose, `outputs` are the static columns of the result."""

    identity: pd.DataFrame  # QUERY, g0, …: what tells groups apart
    outputs: pd.DataFrame  # o0, …: what users see of them

    @property
    def query(self) -> NDArray:
        return self.identity[QUERY].to_numpy(np.int32)

    def __len__(self) -> int:
        return len(self.identity)


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


def edges_of(plan: EmitOnDrift, weights: pa.Table, groups: Groups) -> tuple[Edges, Groups]:
    """The edges that rows of the weights query stand for, and the groups, new ones at the end."""
    frame = weights.to_pandas(date_as_object=True)
    if QUERY not in frame:
        frame[QUERY] = 0
    group, groups = _numbered(plan, frame, groups)
    item = frame[ITEM].to_numpy(np.int64)
    value_slots = [i for i, s in enumerate(plan.slots) if s.feature is not None]
    flag_slots = [i for i, s in enumerate(plan.slots) if s.feature is None]
    answers = len(plan.shape.answers)
    value: list[tuple[NDArray, ...]] = []
    flag: list[tuple[NDArray, ...]] = []
    for edge in plan.edges:
        weight = frame[edge.column].to_numpy(np.float64, na_value=0.0)
        used = np.flatnonzero(weight != 0)
        target = group[used] if edge.total == "rows" else group[used] * answers + edge.answer
        if plan.slots[edge.slot].feature is not None:
            value.append((item[used] * len(value_slots) + value_slots.index(edge.slot), target, weight[used]))
        else:
            total = np.full(len(used), _TOTALS[edge.total], np.int8)
            flag.append((item[used] * len(flag_slots) + flag_slots.index(edge.slot), target, total, weight[used]))
    value_parts = [np.concatenate(p) for p in zip(*value, strict=True)] if value else list(vars(no_edges()).values())[:3]
    return Edges(*value_parts, *(np.concatenate(p) for p in zip(*flag, strict=True))), groups


def no_edges() -> Edges:
    number, none = np.zeros(0), np.zeros(0, np.int64)
    return Edges(none, none, number, none, none, np.zeros(0, np.int8), number)


def wire(plan: EmitOnDrift, edges: Edges, query: NDArray, items: int) -> kernel.Wiring:
    """The arrays of the kernel from flat edges; query has one entry per group."""
    values = [s for s in plan.slots if s.feature is not None]
    flags = [s for s in plan.slots if s.feature is None]
    answers = plan.shape.answers
    value_start, value_order = _columns(edges.value_slot, items * len(values))
    flag_start, flag_order = _columns(edges.flag_slot, items * len(flags))
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


def _numbered(plan: EmitOnDrift, frame: pd.DataFrame, groups: Groups) -> tuple[NDArray, Groups]:
    identity = [QUERY, *(f"g{i}" for i in range(len(plan.shape.groups)))]
    outputs = [f"o{i}" for i, o in enumerate(plan.shape.outputs) if o.expression is not None]
    if not plan.shape.groups:  # one group per query, there from the start
        return frame[QUERY].to_numpy(np.int64), groups
    if len(groups) == 0:
        code = frame.groupby(identity, dropna=False, sort=True).ngroup().to_numpy(np.int64)
        old = 0
    else:
        both = pd.concat([groups.identity, frame[identity]], ignore_index=True)
        code = both.groupby(identity, dropna=False, sort=False).ngroup().to_numpy(np.int64)
        old = len(groups)
        code = code[old:]
    size = max(old, int(code.max()) + 1 if len(code) else 0)
    first = np.zeros(size, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    new = frame.iloc[first[old:]] if size > old else frame.iloc[:0]
    grown = Groups(new[identity].reset_index(drop=True), new[outputs].reset_index(drop=True))
    if old:
        grown = Groups(
            pd.concat([groups.identity, grown.identity], ignore_index=True),
            pd.concat([groups.outputs, grown.outputs], ignore_index=True),
        )
    return code, grown


def _columns(slot: NDArray, slots: int) -> tuple[NDArray, NDArray]:
    """Compressed columns: where each slot's edges start, and the order that sorts them."""
    order = np.argsort(slot, kind="stable")
    start = np.zeros(slots + 1, np.int64)
    np.cumsum(np.bincount(slot, minlength=slots), out=start[1:])
    return start, order


def _bits(features: tuple[int, ...]) -> int:
    return sum(1 << f for f in features)
