"""Sites on executors: a Spark job runs the filters of a batch, and only what passes one comes to the driver.

A partition holds whole sites. It is given their state (a row per key: the row in force, the item's number, and what the
site knows of its filters), the rows of the batch, and width changes; it gives back messages and the new state. Nothing
outlives the job on an executor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from deadband.compiler.planning.cost_curves import GRID
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_live import ROUND, Events, Sent, run_sites
from deadband.runtime.kernels.source_aggregates import Composites, with_composites
from deadband.runtime.sources.batch import encoded, features_of, last_of_each
from deadband.runtime.sources.clean import DELETED, SEQ, TIME

__all__ = [
    "BATCH",
    "CHANGES",
    "KIND",
    "NUMBER",
    "SITE",
    "STATE",
    "VALUES",
    "Task",
    "sent_of",
    "site_job",
    "site_schema",
]

KIND, NUMBER, BATCH = "__kind", "__number", "__batch"
BLOB, VALUES, CHANGES = "__blob", "__values", "__changes"
SITE_HASH, PART = "__site", "__part"
STATE, MESSAGE, COUNTS, REFUSED = 0, 1, 2, 3  # kinds of rows that come out

_OUT = T.StructType(
    [
        T.StructField(KIND, T.IntegerType()),
        T.StructField(NUMBER, T.LongType()),
        T.StructField("tick", T.LongType()),
        T.StructField("phase", T.LongType()),
        T.StructField("feature", T.LongType()),  # -1: a change of presence
        T.StructField("numbers", T.ArrayType(T.DoubleType())),  # value, step, decay; or all features; or counts
        T.StructField("present", T.LongType()),
        T.StructField("alive", T.IntegerType()),
    ]
)
SITE = T.StructType(
    [
        T.StructField(BLOB, T.BinaryType()),  # what the site knows
        T.StructField(VALUES, T.ArrayType(T.LongType())),  # that arrived, by feature
        T.StructField(CHANGES, T.LongType()),  # rows that arrived
        T.StructField(SITE_HASH, T.LongType()),  # of its site, as its first row had it
    ]
)

# what a site knows, per filter; the arrays after the gap have several columns
_FILTER = (
    "value", "centre", "width", "step", "decay", "active", "dense", "seen", "predictor", "shadow_since",
    "shadow_updates", "values",
)  # fmt: skip
_WIDE = (
    "site", "rival_centre", "rival_step", "rival_decay", "rival_count", "shadow_half", "shadow_centre", "shadow_count",
)  # fmt: skip
_ITEM = ("present", "alive", "changes")


@dataclass(frozen=True)
class Task:
    """What every partition is told."""

    key: tuple[str, ...]
    columns: tuple[str, ...]  # of the stream
    features: int
    slots: NDArray  # float64[V, 2]: feature and needs of the value slots
    used: NDArray  # uint64[I], bits of the value slots that weigh in some answer
    relevant: NDArray  # bool[I]
    bits: int  # of the features that matter
    limits: NDArray  # float64[F], how large a feature may be
    numbers: dict[tuple, int]  # items of keys that are new in this batch
    times: NDArray
    of: NDArray  # the tick of each time
    ticks: int
    tick: int  # how many ticks came before
    method: int
    old: NDArray | None  # the features before they changed, by new number, -1: new; None: they did not
    old_features: int
    events: Events
    composites: Composites | None
    tardy: (
        bool  # rows may come for ticks that are answered: they count from the next tick on, if nothing newer has come
    )
    since: int = 0  # rounds before this are known at the driver: tick · ROUND + phase

    @property
    def announce(self) -> bool:
        return self.old is not None

    def again(self, events: Events, since: int) -> Task:
        return replace(self, events=events, since=since)


def site_schema(stream: T.StructType) -> T.StructType:
    """The table of the sites: a row per key."""
    return T.StructType([*stream.fields, T.StructField(NUMBER, T.LongType()), *SITE.fields])


def site_job(rows: DataFrame, sites: DataFrame, stream: T.StructType, task: Broadcast) -> DataFrame:
    """Messages and new state of all sites; rows and sites come with their features and SITE_HASH."""
    parts = rows.sparkSession.sparkContext.defaultParallelism
    part = F.pmod(F.col(SITE_HASH), F.lit(parts)).alias(PART)
    schema = T.StructType([*_OUT.fields, *SITE.fields, *stream.fields])

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        return _run_partition(task.value, left.drop_columns([PART]), right.drop_columns([PART]))

    together = rows.select("*", part).groupBy(PART).cogroup(sites.select("*", part).groupBy(PART))
    return together.applyInArrow(run, schema)


def _run_partition(task: Task, rows: pa.Table, state: pa.Table) -> pa.Table:
    """The sites of one partition: their messages and new state."""
    own = [rows.schema.field(c) for c in task.columns]
    schema = pa.schema([*to_arrow_schema(_OUT, timezone="UTC"), *to_arrow_schema(SITE, timezone="UTC"), *own])
    is_sum = pc.is_null(state[task.key[0]])
    sums, state = state.filter(is_sum), state.filter(pc.invert(is_sum))
    if task.tardy:
        rows = _newer(task, rows, state)
    keys = pa.concat_tables([t.select(list(task.key)) for t in (state, rows)]).combine_chunks()
    if not len(keys):
        return schema.empty_table()
    code, first = encoded(keys)
    known = code[: len(state)]
    number = np.full(len(first), -1, np.int64)
    number[known] = state[NUMBER].to_numpy()
    for k in np.flatnonzero(number < 0):
        number[k] = task.numbers[tuple(c[int(first[k])].as_py() for c in keys.columns)]
    items = len(number)
    composites, made = _own_composites(task, number)
    number = np.concatenate((number, made))
    wiring = _site_wiring(task, number)
    totals = fs.new_state(wiring, len(number), GRID)
    totals = totals._replace(log=np.zeros(len(number) * (task.features + 1) + 1, np.int32))
    sums = sums.filter(pc.is_in(sums[NUMBER], pa.array(made)))
    at = items + np.searchsorted(made, sums[NUMBER].to_numpy())
    blobs = [*state[BLOB].to_pylist(), *sums[BLOB].to_pylist()]
    _unpack(totals, blobs, np.concatenate((known, at)).astype(np.int64), task)
    if task.announce:
        rows = _announced(task, rows, state, known, totals)
        code = encoded(pa.concat_tables([state.select(list(task.key)), rows.select(list(task.key))]).combine_chunks())[
            0
        ]
    code = code[len(state) :]
    kernel_rows, last, refused = _rows_of(task, rows, code, number)
    if composites is not None:
        kernel_rows = with_composites(kernel_rows, composites, _parts_now(task, composites, totals, items))
    events = _own(task, {int(n): k for k, n in enumerate(number)})
    sent = run_sites(wiring, totals, kernel_rows, events, task.method)
    out = [_messages(task, sent, number, schema), _counts(task, sent, number, schema), _refusals(refused, schema)]
    newest = np.full(items, -1, np.int64)
    newest[known] = np.arange(len(state))
    newest[code[last]] = len(state) + last
    there = np.append(newest >= 0, np.ones(len(made), bool))  # a key whose rows were all refused has none in force
    site = np.full(len(number), -1, np.int64)
    site[known] = state[SITE_HASH].to_numpy()
    site[code[::-1]] = np.where(site[code[::-1]] == -1, rows[SITE_HASH].to_numpy()[::-1], site[code[::-1]])
    if composites is not None:
        site[items + composites.composite] = site[_items_of(composites, len(task.slots))]
    raw = pa.concat_tables([t.select(list(task.columns)) for t in (state, rows)]).combine_chunks()
    raw = raw.take(np.maximum(newest, 0))
    kept = {
        KIND: np.full(len(number), STATE, np.int32),
        NUMBER: number,
        BLOB: pa.array(_pack(totals), pa.binary()),
        VALUES: pa.array(totals.values.reshape(len(number), task.features).tolist(), pa.list_(pa.int64())),
        CHANGES: totals.changes,
        SITE_HASH: site,
    }
    raw = pa.concat_tables([raw, pa.table([pa.nulls(len(made), f.type) for f in raw.schema], schema=raw.schema)])
    out.append(_padded({**kept, **{c: raw[c] for c in task.columns}}, len(number), schema).filter(pa.array(there)))
    return pa.concat_tables(out)


def _newer(task: Task, rows: pa.Table, state: pa.Table) -> pa.Table:
    """Rows that are not older than the row in force of their key."""
    code, first = encoded(pa.concat_tables([t.select(list(task.key)) for t in (state, rows)]).combine_chunks())
    time = rows[TIME].to_numpy()
    newest = np.full(len(first), -np.inf if time.dtype.kind == "f" else np.iinfo(np.int64).min, time.dtype)
    newest[code[: len(state)]] = state[TIME].to_numpy()
    return rows.filter(pa.array(time >= newest[code[len(state) :]]))


def _own_composites(task: Task, number: NDArray) -> tuple[Composites | None, NDArray]:
    """The composites whose members are here, for rows numbered as here, and their numbers, in order."""
    none = np.zeros(0, np.int64)
    if task.composites is None:
        return None, none
    whole, V = task.composites, len(task.slots)
    sizes = np.diff(whole.start).reshape(-1, V)[number].reshape(-1)
    first = whole.start[:-1].reshape(-1, V)[number].reshape(-1)
    edges = np.repeat(first - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes) + np.arange(sizes.sum())
    mine = np.unique(whole.composite[edges])
    if not len(mine):
        return None, none
    mine = mine[np.argsort(whole.number[mine])]
    local = np.zeros(len(whole.number), np.int64)
    local[mine] = np.arange(len(mine))
    start = np.concatenate(([0], np.cumsum(sizes), np.full(len(mine) * V, sizes.sum()))).astype(np.int64)
    found = Composites(
        whole.feature, whole.needs, start, local[whole.composite[edges]], whole.weight[edges],
        len(number) + np.arange(len(mine)),
    )  # fmt: skip
    return found, whole.number[mine]


def _items_of(composites: Composites, slots: int) -> NDArray:
    """The item of each edge."""
    return np.repeat(np.arange(len(composites.start) - 1) // slots, np.diff(composites.start))


def _parts_now(task: Task, composites: Composites, totals: fs.State, items: int) -> NDArray:
    """What each edge adds before the batch, from the rows in force."""
    V = len(task.slots)
    item = _items_of(composites, V)
    slot = np.repeat(np.arange(len(composites.start) - 1) % V, np.diff(composites.start))
    needs = composites.needs[slot]
    on = (totals.alive[item] == fs.ALIVE) & (needs & ~totals.present[item] == 0)
    return np.where(on, composites.weight * totals.value[item * task.features + composites.feature[slot]], 0.0)


def _site_wiring(task: Task, number: NDArray) -> fs.Wiring:
    """A wiring in which every slot that some answer uses leads nowhere: sites know widths, not answers."""
    V, features, items = len(task.slots), task.features, len(number)
    used = (task.used[number][:, None] >> np.arange(V, dtype=np.uint64)) & np.uint64(1)
    value_start = np.concatenate(([0], np.cumsum(used.reshape(-1)))).astype(np.int64)
    edges, none, one = int(value_start[-1]), np.zeros(0, np.int64), np.zeros(1, np.int64)
    feature = task.slots[:, 0].astype(np.int64)
    by_feature = np.argsort(feature, kind="stable")
    return fs.Wiring(
        value_feature=feature,
        value_needs=task.slots[:, 1].astype(np.uint64),
        value_start=value_start,
        value_target=np.zeros(edges, np.int32),
        value_weight=np.zeros(edges),
        value_load=np.zeros(edges),
        flag_needs=np.zeros(0, np.uint64),
        flag_start=one,
        flag_target=np.zeros(0, np.int32),
        flag_total=np.zeros(0, np.int8),
        flag_weight=np.zeros(0),
        feature_start=np.searchsorted(feature[by_feature], np.arange(features + 1)).astype(np.int64),
        feature_slot=by_feature.astype(np.int64),
        target_start=np.zeros(2, np.int64),
        target_slot=none,
        target_load=np.zeros(0),
        target_cell=np.zeros(1, np.int32),
        target_group=np.zeros(1, np.int32),
        cell_start=np.array([0, 1], np.int64),
        cell_target=np.zeros(1, np.int32),
        cell_kind=np.zeros(1, np.int8),
        cell_offset=np.zeros(1),
        cell_default=np.full(1, np.nan),
        cell_bound=np.zeros(1),
        cell_percent=np.zeros(1, np.uint8),
        group_start=np.array([0, 1], np.int64),
        group_always=np.zeros(1, np.uint8),
        cost=np.ones(items * features),
        floor=np.zeros(1),
        pad=np.zeros(items * features),
    )


def _rows_of(task: Task, rows: pa.Table, code: NDArray, number: NDArray) -> tuple[fs.Rows, NDArray, NDArray]:
    """The rows for the kernel, the last usable row of each key (its row in force), and which rows were refused."""
    time = rows[TIME].to_numpy()
    order = np.lexsort((rows[SEQ].to_numpy(), rows[BATCH].to_numpy(), code, time))
    values, present = features_of(rows, task.features, order)
    deleted = rows[DELETED].to_numpy(zero_copy_only=False)[order].astype(np.uint8)
    code = code[order]
    with np.errstate(invalid="ignore"):
        usable = (np.abs(values) < task.limits).all(axis=1) | (deleted == 1)
    refused = np.flatnonzero(~usable & task.relevant[number[code]])
    good = np.flatnonzero(usable)
    in_force = good[last_of_each(np.zeros(len(good), np.int64), code[good])]
    used = np.flatnonzero(usable & task.relevant[number[code]])
    tick = task.of[np.searchsorted(task.times, time[order][used])]
    last = last_of_each(tick, code[used])
    used, tick = used[last], tick[last]
    found = fs.Rows(
        start=np.searchsorted(tick, np.arange(task.ticks + 1)).astype(np.int64),
        item=code[used].astype(np.int32),
        present=present[used] & np.uint64(task.bits),
        deleted=deleted[used],
        feature=values[used],
    )
    return found, order[in_force], number[code[refused]]


def _own(task: Task, local: dict[int, int]) -> Events:
    """The width changes of this partition's filters, numbered as here."""
    features, events = task.features, task.events
    item = np.array([local.get(int(j) // features, -1) for j in events.filter], np.int64)
    mine = np.flatnonzero(item >= 0)
    return Events(
        events.tick[mine],
        events.phase[mine],
        item[mine] * features + events.filter[mine] % features,
        events.width[mine],
    )


def _announced(task: Task, rows: pa.Table, state: pa.Table, known: NDArray, totals: fs.State) -> pa.Table:
    """Features have changed: every item in force tells all its values in the first tick, as if it came."""
    alive = ~state[DELETED].to_numpy(zero_copy_only=False)  # also of keys that no query wanted until now
    mine = state.filter(pa.array(alive))
    totals.active[:] = 0
    totals.alive[totals.alive == fs.ALIVE] = fs.NEVER  # composites too
    told = {TIME: np.full(len(mine), task.times[0]), SEQ: np.full(len(mine), -1), BATCH: np.full(len(mine), -1)}
    columns = {**told, DELETED: np.zeros(len(mine), bool)}
    again = pa.table(
        [pa.array(columns[f.name]).cast(f.type) if f.name in columns else mine[f.name] for f in rows.schema],
        schema=rows.schema,
    )
    return pa.concat_tables([again, rows]).combine_chunks()


def _messages(task: Task, sent: Sent, number: NDArray, schema: pa.Schema) -> pa.Table:
    rounds = sent.tick * ROUND + sent.phase
    fresh = rounds >= task.since
    sent = Sent._make([*(column[fresh] for column in sent[:-1]), sent.counts])
    presence = sent.code < 0
    item = np.where(presence, -sent.code - 1, sent.code // task.features)
    numbers = [
        sent.features[k].tolist() if presence[k] else [sent.value[k], sent.step[k], sent.decay[k]]
        for k in range(len(item))
    ]
    columns = {
        KIND: np.full(len(item), MESSAGE, np.int32),
        NUMBER: number[item],
        "tick": sent.tick,
        "phase": sent.phase,
        "feature": np.where(presence, -1, sent.code % task.features),
        "numbers": pa.array(numbers, pa.list_(pa.float64())),
        "present": sent.present.view(np.int64),
        "alive": sent.alive.astype(np.int32),
    }
    return _padded(columns, len(item), schema)


def _counts(task: Task, sent: Sent, number: NDArray, schema: pa.Schema) -> pa.Table:
    """What shadows have counted, where that was asked for."""
    j = sent.counts[:, 1].astype(np.int64)
    columns = {
        KIND: np.full(len(j), COUNTS, np.int32),
        NUMBER: number[j // task.features],
        "tick": sent.counts[:, 0].astype(np.int64),
        "feature": j % task.features,
        "numbers": pa.array(sent.counts[:, 2:].tolist(), pa.list_(pa.float64())),
    }
    return _padded(columns, len(j), schema)


def _refusals(refused: NDArray, schema: pa.Schema) -> pa.Table:
    """How many rows of each item could not be used."""
    number, count = np.unique(refused, return_counts=True)
    return _padded({KIND: np.full(len(number), REFUSED, np.int32), NUMBER: number, "tick": count}, len(number), schema)


def _padded(columns: dict, rows: int, schema: pa.Schema) -> pa.Table:
    """The columns in the order and types of the schema, NULL where there is none."""
    return pa.table(
        [
            pa.array(columns[f.name]).cast(f.type) if isinstance(columns.get(f.name), np.ndarray)
            else _flat(columns[f.name]).cast(f.type) if f.name in columns
            else pa.nulls(rows, f.type)
            for f in schema
        ],
        schema=schema,
    )  # fmt: skip


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def sent_of(table: pa.Table, features: int) -> tuple[Sent, NDArray]:
    """What the messages of all partitions say, in order of round, item and feature; and refused rows by item."""
    kind = table[KIND].to_numpy()
    messages, counts = table.filter(pa.array(kind == MESSAGE)), table.filter(pa.array(kind == COUNTS))
    order = pc.sort_indices(messages, [(c, "ascending") for c in ("tick", "phase", NUMBER, "feature")])
    messages = messages.take(order)
    n = len(messages)
    item, feature = messages[NUMBER].to_numpy(), messages["feature"].to_numpy()
    lists = messages["numbers"].combine_chunks()
    flat = lists.flatten().to_numpy(zero_copy_only=False) if n else np.zeros(0)
    at = lists.offsets.to_numpy()[:-1] if n else np.zeros(0, np.int64)
    at = at - (at[0] if n else 0)
    single = feature >= 0
    scalar = np.zeros((n, 3))
    scalar[single] = flat[at[single][:, None] + np.arange(3)]
    vectors = np.zeros((n, features))
    vectors[~single] = flat[at[~single][:, None] + np.arange(features)]
    asked = counts[NUMBER].to_numpy() * features + counts["feature"].to_numpy() if len(counts) else np.zeros(0)
    told = np.array(counts["numbers"].to_pylist()) if len(counts) else np.zeros((0, 3 + 2 * GRID))
    refused = table.filter(pa.array(kind == REFUSED))
    found = Sent(
        tick=messages["tick"].to_numpy(),
        phase=messages["phase"].to_numpy(),
        code=np.where(single, item * features + feature, -item - 1),
        value=scalar[:, 0].copy(),
        step=scalar[:, 1].copy(),
        decay=scalar[:, 2].copy(),
        present=messages["present"].to_numpy().astype(np.int64).view(np.uint64),
        alive=messages["alive"].to_numpy().astype(np.uint8),
        features=vectors,
        counts=np.column_stack([counts["tick"].to_numpy(), asked, told]),
    )
    return found, np.column_stack([refused[NUMBER].to_numpy(), refused["tick"].to_numpy()]).astype(np.int64)


def _pack(totals: fs.State) -> list[bytes]:
    """What each item's site knows, as bytes."""
    items = len(totals.alive)
    parts = [getattr(totals, name).astype(float).reshape(items, -1) for name in (*_FILTER, *_WIDE)]
    parts += [totals.present.view(np.float64)[:, None], *(getattr(totals, n).astype(float)[:, None] for n in _ITEM[1:])]
    whole = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return [row.tobytes() for row in whole]


def _unpack(totals: fs.State, blobs: list[bytes], items: NDArray, task: Task) -> None:
    """The same the other way round."""
    totals.clock[fs.TICK] = task.tick
    if not blobs:
        return
    whole = np.frombuffer(b"".join(blobs)).reshape(len(blobs), -1)
    before, at = task.old_features, 0
    old = np.arange(before) if task.old is None else task.old
    kept = np.flatnonzero(old >= 0)
    rows = items[:, None] * task.features + kept
    for name in (*_FILTER, *_WIDE):
        array = getattr(totals, name)
        depth = array.shape[1] if array.ndim == 2 else 1
        part = whole[:, at : at + before * depth].reshape(len(blobs), before, depth)[:, old[kept]]
        array[rows] = part if array.ndim == 2 else part[:, :, 0]
        at += before * depth
    totals.present[items] = np.ascontiguousarray(whole[:, at]).view(np.uint64)
    for k, name in enumerate(_ITEM[1:]):
        getattr(totals, name)[items] = whole[:, at + 1 + k]
    dense = np.flatnonzero(totals.dense).astype(np.int32)
    totals.moving[: len(dense)] = dense
    totals.clock[fs.MOVING] = len(dense)
