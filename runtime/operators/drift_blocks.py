"""EmitOnDrift cut into blocks of groups: any cut works, as groups share items but no totals.

Each block sees the rows of its own items and runs all ticks by itself, in a thread of the driver or in a task on an
executor; reports are put in order afterwards. A block's answers are bit for bit those of an uncut run.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadband.compiler.lower.weights import ITEM
from deadband.compiler.physical import EmitOnDrift
from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.operators.emit_on_drift import Changes, State
from deadband.runtime.operators.wiring import Edges, wire
from deadband.runtime.sources.batch import features_of
from deadband.runtime.sources.clean import DELETED
from deadband.runtime.sources.frames import from_arrow
from deadband.runtime.sql import collected

__all__ = ["BLOCK_WORK", "TICK", "run_on_executors", "run_on_threads"]

TICK = "__tick"

BLOCK_WORK = 4_000_000  # edge updates below which a thread costs more than it saves

_EMITTED = "block int, tick bigint, group int, diff tinyint, answer array<double>, counted binary"


@dataclass(frozen=True)
class Block:
    first: int  # its first group
    wiring: kernel.Wiring


def cut(plan: EmitOnDrift, state: State, count: int) -> list[Block]:
    """Contiguous blocks of groups with about equally many edges."""
    answers, groups = len(plan.shape.answers), len(state.groups)
    edges = state.edges
    weight = np.bincount(edges.value_target // answers, minlength=groups) + 1
    cuts = np.searchsorted(np.cumsum(weight), np.linspace(0, weight.sum(), count + 1)[1:-1])
    ends = np.unique(np.concatenate(([0], cuts, [groups])))
    owner = np.where(edges.flag_total == kernel.ROWS_TOTAL, edges.flag_target, edges.flag_target // answers)
    blocks = []
    for first, last in itertools.pairwise(ends):
        mine = (edges.value_target >= first * answers) & (edges.value_target < last * answers)
        flags = (owner >= first) & (owner < last)
        base = np.where(edges.flag_total[flags] == kernel.ROWS_TOTAL, first, first * answers)
        part = Edges(
            edges.value_slot[mine],
            edges.value_target[mine] - first * answers,
            edges.value_weight[mine],
            edges.flag_slot[flags],
            edges.flag_target[flags] - base,
            edges.flag_total[flags],
            edges.flag_weight[flags],
        )
        blocks.append(Block(int(first), wire(plan, part, state.groups.query[first:last], len(state.number))))
    return blocks


def run_on_threads(
    plan: EmitOnDrift, state: State, rows: kernel.Rows, times: NDArray, threads: int
) -> tuple[Changes, list[tuple[NDArray, NDArray]]]:
    """All ticks of a replay on the driver; the kernel releases the interpreter lock."""
    work = len(rows.item) * len(state.edges.value_slot) / max(len(state.number), 1)
    blocks = cut(plan, state, max(1, min(threads, int(work // BLOCK_WORK) + 1)))

    def run(block: Block) -> tuple[kernel.Emitted, tuple[NDArray, NDArray]]:
        totals = kernel.new_state(block.wiring, len(state.number), len(plan.group.queries))
        emitted = kernel.step(block.wiring, totals, rows)
        return emitted, kernel.counted(block.wiring, totals)

    with ThreadPoolExecutor(max(len(blocks), 1)) as pool:
        done = list(pool.map(run, blocks))
    if not done:
        return _changes([], [], times, len(plan.shape.answers)), []
    return _changes([b.first for b in blocks], [e for e, _ in done], times, len(plan.shape.answers)), [
        c for _, c in done
    ]


def run_on_executors(
    plan: EmitOnDrift, state: State, rows: DataFrame, windows: NDArray, times: NDArray, blocks: int
) -> tuple[Changes, list[tuple[NDArray, NDArray]]]:
    """The same on executors. rows: ITEM (in key order), TICK, DELETED, features; good ones, one per item and tick."""
    spark = rows.sparkSession
    cuts = cut(plan, state, blocks)
    if not cuts:
        return _changes([], [], times, len(plan.shape.answers)), []
    items, queries, features = len(state.number), len(plan.group.queries), len(plan.features)
    shared = spark.sparkContext.broadcast((cuts, windows, items, queries, features))
    members = pa.table(
        {
            ITEM: pa.array(np.concatenate([_items(b, items) for b in cuts])),
            "block": pa.array(
                np.concatenate([np.full(len(_items(b, items)), i, np.int32) for i, b in enumerate(cuts)])
            ),
        }
    )
    routed = rows.join(F.broadcast(from_arrow(spark, members)), ITEM)

    def run(key: tuple, group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _run_block(int(key[0].as_py()), pa.Table.from_batches(group), shared.value)

    found = collected(routed.groupBy("block").applyInArrow(run, _EMITTED))
    counted = [pickle.loads(c) for c in found["counted"].to_pylist() if c is not None]
    emitted = found.filter(pc.is_valid(found["tick"]))
    answers = len(plan.shape.answers)
    flat = emitted["answer"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, answers)
    block = emitted["block"].to_numpy()
    first = np.array([b.first for b in cuts], np.int64)
    parts = kernel.Emitted(
        emitted["tick"].to_numpy(), emitted["group"].to_numpy() + first[block], emitted["diff"].to_numpy(), flat
    )
    ran = set(found["block"].to_pylist())
    idle = [b for i, b in enumerate(cuts) if i not in ran]
    extra = [_without_rows(b, windows, items, queries, features) for b in idle]
    merged = _changes([0, *(b.first for b in idle)], [parts, *(e for e, _ in extra)], times, answers)
    return merged, [*counted, *(c for _, c in extra)]


def _run_block(number: int, table: pa.Table, shared: tuple) -> pa.RecordBatch:
    cuts, windows, items, queries, features = shared
    order = np.lexsort((table[ITEM].to_numpy(), table[TICK].to_numpy()))
    tick = table[TICK].to_numpy()[order]
    values, present = features_of(table, features, order)
    rows = kernel.Rows(
        start=np.searchsorted(tick, np.arange(len(windows) + 1)).astype(np.int64),
        item=table[ITEM].to_numpy()[order].astype(np.int32),
        present=present,
        deleted=table[DELETED].to_numpy()[order].astype(np.uint8),
        feature=values,
        window=windows,
    )
    wiring = cuts[number].wiring
    totals = kernel.new_state(wiring, items, queries)
    emitted = kernel.step(wiring, totals, rows)
    n = len(emitted.tick)
    last = np.arange(n + 1) == n  # a row for the counters after those of the reports
    counted = pickle.dumps(kernel.counted(wiring, totals))
    offsets = np.append(np.arange(n + 1) * emitted.answer.shape[1], n * emitted.answer.shape[1]).astype(np.int32)
    return pa.record_batch(
        {
            "block": pa.array(np.full(n + 1, number, np.int32)),
            "tick": pa.array(np.append(emitted.tick, 0), pa.int64(), mask=last),
            "group": pa.array(np.append(emitted.group, 0), pa.int32(), mask=last),
            "diff": pa.array(np.append(emitted.diff, 0), pa.int8(), mask=last),
            "answer": pa.ListArray.from_arrays(pa.array(offsets), pa.array(emitted.answer.reshape(-1))),
            "counted": pa.array([*([None] * n), counted], pa.binary()),
        }
    )


def _without_rows(
    block: Block, windows: NDArray, items: int, queries: int, features: int
) -> tuple[kernel.Emitted, tuple[NDArray, NDArray]]:
    """A block none of whose items has rows still gives the first answers of global aggregates."""
    none = np.zeros(0, np.int64)
    rows = kernel.Rows(
        np.zeros(len(windows) + 1, np.int64),
        none.astype(np.int32),
        none.astype(np.uint64),
        none.astype(np.uint8),
        np.zeros((0, features)),
        windows,
    )
    totals = kernel.new_state(block.wiring, items, queries)
    return kernel.step(block.wiring, totals, rows), kernel.counted(block.wiring, totals)


def _items(block: Block, items: int) -> NDArray:
    """The items that have an edge into the block."""
    wiring = block.wiring
    degree = np.diff(wiring.flag_start).reshape(items, -1).sum(axis=1) if items else np.zeros(0)
    return np.flatnonzero(degree)


def _changes(first: list[int], emitted: list[kernel.Emitted], times: NDArray, answers: int) -> Changes:
    """Reports of all blocks by tick, then group."""
    if not emitted:
        none = np.zeros(0, np.int64)
        return Changes(times[:0], none, none, np.zeros((0, answers)))
    tick = np.concatenate([e.tick for e in emitted])
    group = np.concatenate([e.group.astype(np.int64) + f for f, e in zip(first, emitted, strict=True)])
    diff = np.concatenate([e.diff for e in emitted])
    answer = np.concatenate([e.answer for e in emitted])
    order = np.lexsort((group, tick))
    return Changes(times[tick[order]], group[order], diff[order], answer[order])
