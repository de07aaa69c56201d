"""All PRECISION queries over one stream as one set of filters: items, targets, cells and groups numbered together.

Numbers are given when something is first seen and never change, so that state grows at its end only. A linear answer
of a group is a cell with one target; MIN and MAX are cells whose targets are the rows that compete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from deadband.compiler.bind.template import QUERY
from deadband.compiler.errors import DeadbandError
from deadband.compiler.lower.weights import ITEM
from deadband.compiler.physical import AdaptiveFilter, Candidate, Slot
from deadband.runtime.kernels import filter_state as kernel
from deadband.runtime.operators.wiring import Groups, columns_of, edges_of, numbered

__all__ = ["Book", "wire"]

_KINDS = {"SUM": kernel.SUM, "AVG": kernel.AVG, "COUNT": kernel.COUNT, "MIN": kernel.MIN, "MAX": kernel.MAX}

FEW, FLOOR = 50, 0.2  # with more groups than a few, messages per group that a component sends between two plans

RunWeights = Callable[[pa.Table], pa.Table]  # keys with ITEM -> rows of the weights query


@dataclass
class Table:
    """Columns of numbers that grow at the end."""

    columns: dict[str, NDArray]

    def add(self, **rows: NDArray) -> None:
        for name, column in self.columns.items():
            self.columns[name] = np.concatenate((column, np.asarray(rows[name], column.dtype)))

    def __getitem__(self, name: str) -> NDArray:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _emptied(table: Table) -> dict[str, NDArray]:
    return {name: column[:0] for name, column in table.columns.items()}


def _table(**kinds: type) -> Table:
    return Table({name: np.zeros(0, kind) for name, kind in kinds.items()})


@dataclass
class Book:
    """What is known of the plans, the keys and the groups."""

    plans: list[AdaptiveFilter]
    features: list[exp.Expr]  # of all plans together, then cost and rate columns
    slots: list[tuple[int | None, int]] = field(default_factory=list)  # feature, bits of the features it needs
    keys: pa.Table | None = None
    number: dict[tuple, int] = field(default_factory=dict)  # key -> item
    groups: list[Groups] = field(default_factory=list)  # per plan
    group_number: list[NDArray] = field(default_factory=list)  # per plan: the number of each group of it
    value: Table = field(default_factory=lambda: _table(item=int, slot=int, target=int, weight=float))
    flag: Table = field(default_factory=lambda: _table(item=int, slot=int, target=int, total=np.int8, weight=float))
    target: Table = field(default_factory=lambda: _table(cell=int, group=int))
    cell: Table = field(default_factory=lambda: _table(plan=int, query=int, answer=int, target=int))
    group: Table = field(default_factory=lambda: _table(plan=int, row=int, first=int))
    composite: Table = field(default_factory=lambda: _table(item=int, target=int, site=int))
    member: Table = field(default_factory=lambda: _table(item=int, slot=int, composite=int, weight=float))
    cost: NDArray = field(default_factory=lambda: np.zeros(0))  # per item, of a message
    rate: NDArray = field(default_factory=lambda: np.zeros(0))  # per item, the most a value changes a second
    site: NDArray = field(default_factory=lambda: np.zeros(0, np.int64))  # per item, where it has a site of its own: -1

    def __getstate__(self) -> dict:
        """Plans are not saved: who loads a book has them, and gives them back with `attach`."""
        return {k: v for k, v in vars(self).items() if k not in ("plans", "features")}

    def attach(self, plans: list[AdaptiveFilter], features: list[exp.Expr]) -> None:
        self.plans, self.features = plans, features

    def open(self, constants: Sequence[dict[str, pa.Scalar]]) -> None:
        """Numbers what is there before any row: slots, and the groups of global aggregates."""
        seen: dict[tuple[int | None, int], int] = {}
        for plan in self.plans:
            for slot in plan.slots:
                seen.setdefault(self._slot(plan, slot), len(seen))
        self.slots = list(seen)
        for p, plan in enumerate(self.plans):
            there = 0 if plan.shape.groups else len(plan.group.queries)
            columns = {
                QUERY: np.arange(there, dtype=np.int32),
                **{o: pa.repeat(c, there) for o, c in constants[p].items()},
            }
            self.groups.append(Groups(pa.table(columns)))
            self.group_number.append(np.zeros(0, np.int64))
            self._add_groups(p)

    def learn(self, fresh: pa.Table, weights: Sequence[RunWeights]) -> None:
        """Wires keys never seen to the groups they belong to."""
        first = len(self.number)
        rows = list(zip(*(c.to_pylist() for c in fresh.columns), strict=True))
        self.number.update({k: first + i for i, k in enumerate(rows)})
        self.keys = fresh if self.keys is None else pa.concat_tables([self.keys, fresh]).combine_chunks()
        numbered = fresh.append_column(ITEM, pa.array(np.arange(first, first + len(rows), dtype=np.int64)))
        for p, run in enumerate(weights):
            self._wire(p, run(numbered))
        self.cost = np.append(self.cost, np.ones(len(rows)))
        self.rate = np.append(self.rate, np.zeros(len(rows)))
        self.site = np.append(self.site, np.full(len(rows), -1))

    def rewire(self, weights: Sequence[RunWeights]) -> None:
        """Wires all keys anew, for static tables that have changed; groups keep their numbers."""
        assert self.keys is not None
        for name in ("value", "flag", "member", "composite"):
            setattr(self, name, Table(_emptied(getattr(self, name))))
        rows = zip(*(c.to_pylist() for c in self.keys.columns), strict=True)
        numbered = self.keys.append_column(ITEM, pa.array([self.number[k] for k in rows], pa.int64()))
        for p, run in enumerate(weights):
            self._wire(p, run(numbered))

    def _slot(self, plan: AdaptiveFilter, slot: Slot) -> tuple[int | None, int]:
        feature = None if slot.feature is None else self.features.index(plan.features[slot.feature])
        return feature, sum(1 << self.features.index(plan.features[n]) for n in slot.needs)

    def _add_groups(self, p: int) -> None:
        """Numbers the groups of a plan that have none yet, their cells, and the targets of linear ones."""
        plan, rows = self.plans[p], self.groups[p]
        old, new = len(self.group_number[p]), len(rows)
        if old == new:
            return
        answers = plan.shape.answers
        count, A = new - old, len(answers)
        numbers = np.arange(len(self.group), len(self.group) + count)
        cells = len(self.cell) + np.arange(count * A).reshape(count, A)
        linear = np.array([a.kind not in ("MIN", "MAX") for a in answers])
        targets = np.full((count, A), -1)
        targets[:, linear] = len(self.target) + np.arange(count * linear.sum()).reshape(count, -1)
        self.group.add(plan=np.full(count, p), row=np.arange(old, new), first=cells[:, 0])
        self.cell.add(
            plan=np.full(count * A, p),
            query=np.repeat(rows.query[old:], A),
            answer=np.tile(np.arange(A), count),
            target=targets.reshape(-1),
        )
        mine = targets[:, linear].reshape(-1)
        self.target.add(
            cell=cells[:, linear].reshape(-1)[: len(mine)], group=np.repeat(numbers, int(linear.sum()))[: len(mine)]
        )
        self.group_number[p] = np.append(self.group_number[p], numbers)

    def _wire(self, p: int, weights: pa.Table) -> None:
        plan = self.plans[p]
        edges, self.groups[p] = edges_of(plan, weights, self.groups[p])
        self._add_groups(p)
        A, number = len(plan.shape.answers), self.group_number[p]
        first, cell_target = self.group["first"], self.cell["target"]

        def target_of(flat: NDArray) -> NDArray:
            return cell_target[first[number[flat // A]] + flat % A]

        value_slots = [i for i, s in enumerate(plan.slots) if s.feature is not None]
        flag_slots = [i for i, s in enumerate(plan.slots) if s.feature is None]
        slot_of = np.array([self.slots.index(self._slot(plan, s)) for s in plan.slots], np.int64)
        if len(edges.value_slot):
            self.value.add(
                item=edges.value_slot // len(value_slots),
                slot=slot_of[np.array(value_slots)[edges.value_slot % len(value_slots)]],
                target=target_of(edges.value_target),
                weight=edges.value_weight,
            )
        is_rows = edges.flag_total == kernel.ROWS_TOTAL
        target = np.empty(len(is_rows), np.int64)
        target[is_rows] = number[edges.flag_target[is_rows]]
        target[~is_rows] = target_of(edges.flag_target[~is_rows])
        self.flag.add(
            item=edges.flag_slot // len(flag_slots),
            slot=slot_of[np.array(flag_slots)[edges.flag_slot % len(flag_slots)]],
            target=target,
            total=edges.flag_total,
            weight=edges.flag_weight,
        )
        for candidate in plan.candidates:
            self._compete(p, candidate, weights, slot_of)

    def _compete(self, p: int, candidate: Candidate, weights: pa.Table, slot_of: NDArray) -> None:
        """A target for each distinct (constant, weights) with which an item competes in a MIN or MAX of a group."""
        plan, number = self.plans[p], self.group_number[p]
        lists = weights[candidate.column].combine_chunks()
        row = pc.list_parent_indices(lists).to_numpy()
        if not len(row):
            return
        found = pc.list_flatten(lists)
        plan_group = _group_rows(plan, weights, self.groups[p])[row]
        group = number[plan_group]
        cell = self.group["first"][group] + candidate.answer
        item = weights[ITEM].to_numpy()[row]
        target = len(self.target) + np.arange(len(row))
        self.target.add(cell=cell, group=group)
        one = np.ones(len(row))
        flag = np.full(len(row), slot_of[candidate.flag])
        counted, summed = (np.full(len(row), k, np.int8) for k in (kernel.COUNT_TOTAL, kernel.SUM_TOTAL))
        self.flag.add(item=item, slot=flag, target=target, total=counted, weight=one)
        self.flag.add(item=item, slot=flag, target=target, total=summed, weight=self._finite(p, candidate, found, "c"))
        for k, slot in enumerate(candidate.slots):
            weight = self._finite(p, candidate, found, f"w{k}")
            used = np.flatnonzero(weight != 0)
            self.value.add(
                item=item[used], slot=np.full(len(used), slot_of[slot]), target=target[used], weight=weight[used]
            )

    def _finite(self, p: int, candidate: Candidate, found: pa.StructArray, name: str) -> NDArray:
        weight = pc.struct_field(found, name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not np.isfinite(weight).all():
            plan = self.plans[p]
            raise DeadbandError(
                f"{plan.group.first.name} has weights that are not finite",
                detail=f"in {plan.shape.answers[candidate.answer].text}",
                hint="leave rows of static tables with NaN or infinite values out, with WHERE",
            )
        return weight


def _group_rows(plan: AdaptiveFilter, weights: pa.Table, groups: Groups) -> NDArray:
    """The group of each row of the weights query; all of them are known."""
    if QUERY not in weights.column_names:
        weights = weights.append_column(QUERY, pa.array(np.zeros(len(weights), np.int32)))
    return numbered(plan, weights, groups)[0]


def wire(book: Book, lateness: float, groups: int) -> kernel.Wiring:
    """The arrays of the kernel; groups: how many there are in all, where the book is cut."""
    values = [k for k, (feature, _) in enumerate(book.slots) if feature is not None]
    flags = [k for k, (feature, _) in enumerate(book.slots) if feature is None]
    items, F = len(book.number), len(book.features)
    local = np.zeros(len(book.slots) + 1, np.int64)
    local[values], local[flags] = np.arange(len(values)), np.arange(len(flags))
    value_slot = book.value["item"] * len(values) + local[book.value["slot"]]
    flag_slot = book.flag["item"] * len(flags) + local[book.flag["slot"]]
    value_start, by_slot = columns_of(value_slot, items * len(values))
    flag_start, by_flag = columns_of(flag_slot, items * len(flags))
    target_start, by_target = columns_of(book.value["target"], len(book.target))
    cell_start, by_cell = columns_of(book.target["cell"], len(book.cell))
    feature = np.array([book.slots[k][0] for k in values], np.int64)
    feature_start, by_feature = columns_of(feature, F)
    answers = [
        (a, q.promise.bounds[i]) for p in book.plans for q in p.group.queries for i, a in enumerate(p.shape.answers)
    ]
    bases, at = [], 0
    for p in book.plans:
        bases.append(at)
        at += len(p.group.queries) * len(p.shape.answers)
    sizes = np.array([len(p.shape.answers) for p in book.plans], np.int64)
    plan, query, answer = book.cell["plan"], book.cell["query"], book.cell["answer"]
    which = np.array(bases, np.int64)[plan] + query * sizes[plan] + answer if len(plan) else np.zeros(0, np.int64)

    def per_cell(values: list, kind: type) -> NDArray:
        return np.array(values, kind)[which] if len(which) else np.zeros(0, kind)

    weight = book.value["weight"][by_slot]
    return kernel.Wiring(
        value_feature=feature,
        value_needs=np.array([book.slots[k][1] for k in values], np.uint64),
        value_start=value_start,
        value_target=book.value["target"][by_slot].astype(np.int32),
        value_weight=weight,
        value_load=np.abs(weight),
        flag_needs=np.array([book.slots[k][1] for k in flags], np.uint64),
        flag_start=flag_start,
        flag_target=book.flag["target"][by_flag].astype(np.int32),
        flag_total=book.flag["total"][by_flag],
        flag_weight=book.flag["weight"][by_flag],
        feature_start=feature_start,
        feature_slot=by_feature.astype(np.int64),
        target_start=target_start,
        target_slot=value_slot[by_target],
        target_load=np.abs(book.value["weight"][by_target]),
        target_cell=book.target["cell"].astype(np.int32),
        target_group=book.target["group"].astype(np.int32),
        cell_start=cell_start,
        cell_target=by_cell.astype(np.int32),
        cell_kind=per_cell([_KINDS[a.kind] for a, _ in answers], np.int8),
        cell_offset=per_cell([a.offset for a, _ in answers], np.float64),
        cell_default=per_cell([np.nan if a.default is None else a.default for a, _ in answers], np.float64),
        cell_bound=per_cell([0.0 if b is None else b.amount for _, b in answers], np.float64),
        cell_percent=per_cell([b is not None and b.percent for _, b in answers], np.uint8),
        group_start=np.append(book.group["first"], len(book.cell)).astype(np.int64),
        group_always=np.array([0 if book.plans[p].shape.groups else 1 for p in book.group["plan"]], np.uint8),
        cost=np.repeat(book.cost, F),
        floor=np.array([FLOOR * groups if groups > FEW else 0.0]),
        pad=np.repeat(2.0 * lateness * book.rate, F),
    )
