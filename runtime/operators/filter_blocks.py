"""AdaptiveFilter cut into blocks: connected components of items and groups share nothing, so any bundling works.

Each block runs sites and coordinator for all ticks by itself, in a thread of the driver or in a task on an executor;
reports are put in order and counters in their places afterwards.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from deadband.compiler.lower.weights import ITEM
from deadband.compiler.planning.cost_curves import GRID, Curves
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.source_aggregates import Composites, with_composites
from deadband.runtime.operators.adaptive_filter import Changes, State, changes_of, method_of, run
from deadband.runtime.operators.drift_blocks import BLOCK_WORK, TICK
from deadband.runtime.operators.filter_composites import composites_of
from deadband.runtime.operators.filter_wiring import Book, Table, wire
from deadband.runtime.sources.batch import features_of
from deadband.runtime.sources.clean import DELETED
from deadband.runtime.sources.frames import from_arrow
from deadband.runtime.sql import collected

__all__ = ["run_on_executors", "run_on_threads"]

BLOCK = "__block"
_PER_FILTER, _PER_ITEM = ("messages", "control", "values"), ("arrivals", "changes", "alive")
_PER_GROUP = ("reports", "wide")


@dataclass(frozen=True)
class Block:
    """Whole components: the items and groups they are made of, by their numbers in the book."""

    items: NDArray
    groups: NDArray
    wiring: fs.Wiring
    history: Curves | None
    composites: Composites | None


@dataclass(frozen=True)
class Ran:
    """What a block gives back: reports, and counters by name."""

    emitted: list[fs.Emitted]
    counters: dict[str, NDArray]


def cut(state: State, history: Curves | None, count: int) -> list[Block]:
    """At most `count` blocks of whole components with about equally many edges."""
    book = state.book
    is_rows = book.flag["total"] == fs.ROWS_TOTAL
    items, groups = len(book.number), len(book.group)
    one = np.concatenate((book.flag["item"][is_rows], book.value["item"]))
    other = items + np.concatenate((book.flag["target"][is_rows], book.target["group"][book.value["target"]]))
    size = items + groups
    graph = coo_matrix((np.ones(len(one)), (one, other)), shape=(size, size))
    parts, label = connected_components(graph, directed=False)
    work = np.bincount(label[book.value["item"]], minlength=parts) + 1
    largest = np.argsort(-work, kind="stable")
    block_of, load = np.zeros(parts, np.int64), np.zeros(max(min(count, parts), 1), np.int64)
    for part in largest:  # the largest first, each to the block with least work
        block_of[part] = load.argmin()
        load[block_of[part]] += work[part]
    mine = block_of[label]
    found = [(np.flatnonzero(mine[:items] == b), np.flatnonzero(mine[items:] == b)) for b in range(len(load))]
    return [_block(state, history, i, g) for i, g in found if len(i) or len(g)]


def _block(state: State, history: Curves | None, items: NDArray, groups: NDArray) -> Block:
    book = state.book
    lateness = book.plans[0].shape.stream.lateness
    new_item, new_group = _renumbered(items, len(book.number)), _renumbered(groups, len(book.group))
    cells = np.flatnonzero(new_group[_group_of_cells(book)] >= 0)
    targets = np.flatnonzero(new_group[book.target["group"]] >= 0)
    new_cell, new_target = _renumbered(cells, len(book.cell)), _renumbered(targets, len(book.target))
    value = _taken(book.value, np.flatnonzero(new_item[book.value["item"]] >= 0))
    flag = _taken(book.flag, np.flatnonzero(new_item[book.flag["item"]] >= 0))
    member = _taken(book.member, np.flatnonzero(new_item[book.member["item"]] >= 0))
    made = np.flatnonzero(new_item[book.composite["item"]] >= 0) if len(book.composite) else np.zeros(0, np.int64)
    new_made = _renumbered(made, len(book.composite))
    is_rows = flag["total"] == fs.ROWS_TOTAL
    ends = np.where(is_rows, new_group[np.where(is_rows, flag["target"], 0)], -1)
    ends[~is_rows] = new_target[flag["target"][~is_rows]]
    part = replace(
        book,
        number=dict.fromkeys(range(len(items)), 0),  # type: ignore[arg-type]
        value=_with(value, item=new_item[value["item"]], target=new_target[value["target"]]),
        flag=_with(flag, item=new_item[flag["item"]], target=ends),
        target=Table(
            {"cell": new_cell[book.target["cell"][targets]], "group": new_group[book.target["group"][targets]]}
        ),
        cell=_taken(book.cell, cells),
        group=_with(_taken(book.group, groups), first=new_cell[book.group["first"][groups]]),
        member=_with(member, item=new_item[member["item"]], composite=new_made[member["composite"]]),
        composite=_with(_taken(book.composite, made), item=new_item[book.composite["item"][made]]),
        cost=book.cost[items],
        rate=book.rate[items],
        site=book.site[items],
    )
    features = len(book.features)
    filters = (items[:, None] * features + np.arange(features)).reshape(-1)
    known = None if history is None else history.of(filters)
    return Block(items, groups, wire(part, lateness, len(book.group)), known, composites_of(part))


def _group_of_cells(book: Book) -> NDArray:
    return np.searchsorted(book.group["first"], np.arange(len(book.cell)), side="right") - 1


def _renumbered(kept: NDArray, size: int) -> NDArray:
    found = np.full(size, -1, np.int64)
    found[kept] = np.arange(len(kept))
    return found


def _taken(table: Table, rows: NDArray) -> Table:
    return Table({name: column[rows] for name, column in table.columns.items()})


def _with(table: Table, **columns: NDArray) -> Table:
    return Table({**table.columns, **columns})


def run_on_threads(state: State, rows: fs.Rows, times: NDArray, history: Curves | None, threads: int) -> Changes:
    """All ticks on the driver; the state's counters are filled in."""
    method = method_of(state)
    work = len(rows.item) * (1 + len(state.book.value) // max(len(state.book.number), 1))
    if threads == 1 or work < BLOCK_WORK:
        composites = composites_of(state.book)
        if composites is not None:
            rows = with_composites(rows, composites)
        return changes_of(run(state.wiring, state.totals, rows, method, history), times)
    blocks = cut(state, history, threads)
    with ThreadPoolExecutor(len(blocks)) as pool:
        found = list(pool.map(lambda block: _run(block, _rows_of(block, rows), method), blocks))
    return _merged(state, blocks, found, times)


def run_on_executors(
    state: State, rows: DataFrame, times: NDArray, history: Curves | None, parallelism: int
) -> Changes:
    """The same with a task per block; rows have ITEM, TICK, DELETED and features, each item once a tick."""
    spark, features = rows.sparkSession, len(state.book.features)
    blocks, method = cut(state, history, 2 * parallelism), method_of(state)
    of = np.zeros(len(state.book.number), np.int32)
    for number, block in enumerate(blocks):
        of[block.items] = number
    routes = pa.table({ITEM: pa.array(np.arange(len(of), dtype=np.int64)), BLOCK: pa.array(of)})
    routed = rows.join(F.broadcast(from_arrow(spark, routes)), ITEM)
    shared = spark.sparkContext.broadcast((blocks, method, len(times), features))

    def task(key: tuple, table: pa.Table) -> pa.Table:
        blocks, method, ticks, features = shared.value
        number = int(key[0].as_py())
        ran = _run(blocks[number], _table_rows(blocks[number], table, ticks, features), method)
        return pa.table({"block": pa.array([number], pa.int32()), "ran": pa.array([pickle.dumps(ran)], pa.binary())})

    table = collected(routed.groupBy(BLOCK).applyInArrow(task, "block int, ran binary"))
    ran = {b: pickle.loads(blob) for b, blob in zip(table["block"].to_pylist(), table["ran"].to_pylist(), strict=True)}
    found = [ran.get(b) or _run(block, _no_rows(len(times), features), method) for b, block in enumerate(blocks)]
    return _merged(state, blocks, found, times)


def _run(block: Block, rows: fs.Rows, method: str) -> Ran:
    totals = fs.new_state(block.wiring, len(block.items), GRID)
    if block.composites is not None:
        rows = with_composites(rows, block.composites)
    emitted = run(block.wiring, totals, rows, method, block.history)
    names = (*_PER_FILTER, *_PER_ITEM, *_PER_GROUP)
    return Ran(emitted, {name: getattr(totals, name) for name in names})


def _rows_of(block: Block, rows: fs.Rows) -> fs.Rows:
    """The rows of a block's items, numbered as there."""
    new = _renumbered(block.items, int(max(block.items.max(initial=-1), rows.item.max(initial=-1))) + 1)
    mine = np.flatnonzero(new[rows.item] >= 0)
    return fs.Rows(
        start=np.searchsorted(mine, rows.start).astype(np.int64),
        item=new[rows.item[mine]].astype(np.int32),
        present=rows.present[mine],
        deleted=rows.deleted[mine],
        feature=rows.feature[mine],
    )


def _table_rows(block: Block, table: pa.Table, ticks: int, features: int) -> fs.Rows:
    item, tick = table[ITEM].to_numpy(), table[TICK].to_numpy()
    order = np.lexsort((item, tick))
    values, present = features_of(table, features, order)
    new = _renumbered(block.items, int(block.items.max(initial=-1)) + 1)
    return fs.Rows(
        start=np.searchsorted(tick[order], np.arange(ticks + 1)).astype(np.int64),
        item=new[item[order]].astype(np.int32),
        present=present,
        deleted=table[DELETED].to_numpy(zero_copy_only=False)[order].astype(np.uint8),
        feature=values,
    )


def _no_rows(ticks: int, features: int) -> fs.Rows:
    none = np.zeros(0, np.int32)
    return fs.Rows(
        np.zeros(ticks + 1, np.int64), none, none.astype(np.uint64), none.astype(np.uint8), np.zeros((0, features))
    )


def _merged(state: State, blocks: list[Block], found: list[Ran], times: NDArray) -> Changes:
    """Reports of all blocks with the groups' own numbers, and their counters in the state."""
    features = len(state.book.features)
    parts = []
    for block, ran in zip(blocks, found, strict=True):
        filters = (block.items[:, None] * features + np.arange(features)).reshape(-1)
        for name in _PER_FILTER:
            getattr(state.totals, name)[filters] = ran.counters[name]
        for name in _PER_ITEM:
            getattr(state.totals, name)[block.items] = ran.counters[name]
        for name in _PER_GROUP:
            getattr(state.totals, name)[block.groups] = ran.counters[name]
        parts += [e._replace(group=block.groups[e.group]) for e in ran.emitted]
    return changes_of(parts, times)
