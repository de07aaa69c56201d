"""The operator around the kernel, without Spark: DuckDB runs the weights query. However ticks are dealt out in steps,
keys learned and groups cut into blocks, the answers are the same bit for bit."""

import itertools
import math
import pickle
import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T

import deadband
from deadband.runtime.clock import Clock
from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.operators import drift_blocks, emit_on_drift
from deadband.runtime.sources.batch import batch_of

BODY = """SELECT h.account, h.kind, SUM(h.shares * (q.price - h.cost) + {k}) AS v, AVG(q.price * q.qty) AS m, COUNT(q.qty) AS n
FROM quotes q JOIN holdings h ON q.symbol = h.symbol AND h.shares > {k} GROUP BY h.account, h.kind
COHERENCY v WITHIN {bound}, m WITHIN 5 FIDELITY {share}% OVER INTERVAL '9' SECONDS"""
GLOBAL = "SELECT 'all' AS tag, SUM(q.price) AS v FROM quotes q WHERE q.symbol <> 'k{k}' COHERENCY v WITHIN {bound}"
TABLES = {"holdings": {"account": "string", "kind": "int", "symbol": "string", "shares": "double", "cost": "double"}}


class World:
    """Some folded queries, static rows and a trace over keys that come late."""

    def __init__(self, seed, body=BODY, share=90, emit=""):
        self.rng = rng = random.Random(seed)
        text = "CREATE STREAM quotes (symbol STRING, price DOUBLE, qty DOUBLE, at INT) KEY (symbol) TIMESTAMP BY at;"
        for k in range(3):
            query = body.format(k=k, bound=10 * k + 1, share=share)
            text += f"CREATE CONTINUOUS QUERY q{k} AS {query} {emit};"
        self.plan = deadband.compile(text, tables=TABLES)[0].choice.operator
        assert len(self.plan.group.queries) == 3
        self.symbols = [f"k{i}" for i in range(12)]
        self.duck = duckdb.connect()
        self.duck.execute("CREATE TABLE holdings (account TEXT, kind INT, symbol TEXT, shares DOUBLE, cost DOUBLE)")
        self.refill()
        self.rows = []
        for at in range(60):
            known = self.symbols[: 3 + at // 5]
            for symbol in rng.sample(known, rng.randint(0, len(known))):
                price = rng.choice((None, round(rng.gauss(100, 10), 2), 1e200 if rng.random() < 0.02 else 100.0))
                if rng.random() < 0.03:
                    price = rng.choice((math.inf, math.nan, 1e301))
                self.rows.append((symbol, at, price, rng.choice((None, 1.0, 2.5)), rng.random() < 0.05))
        rng.shuffle(self.rows)
        self.times = np.unique(np.array([at for _, at, *_ in self.rows]))

    def refill(self):
        rng = self.rng
        self.duck.execute("DELETE FROM holdings")
        for _ in range(60):
            account = rng.choice((None, "a", "b", "ü", ""))
            shares = rng.choice((0.0, 1.5, -2.0, 3.25, 1e6 / 3))
            row = [account, rng.choice((1, 2, None)), rng.choice(self.symbols), shares, rng.choice((None, 0.1, 99.0))]
            self.duck.execute("INSERT INTO holdings VALUES (?, ?, ?, ?, ?)", row)

    def run_weights(self, keys):
        literals = [q.literals for q in self.plan.group.queries]
        columns = {"__query": pa.array(range(3), pa.int32())}
        columns |= {f"p{i}": [row[i] for row in literals] for i in range(len(literals[0]))}
        self.duck.register("__keys", keys)
        self.duck.register("__params", pa.table(columns))
        return self.duck.sql(self.plan.weights.query.sql("duckdb")).to_arrow_table()

    def batch(self, first=0, last=10**9):
        rows = [(i, r) for i, r in enumerate(self.rows) if first <= r[1] < last]
        columns = {
            "symbol": pa.array([r[0] for _, r in rows], pa.string()),
            "__time": pa.array([r[1] for _, r in rows], pa.int64()),
            "__seq": pa.array([i for i, _ in rows], pa.int64()),
            "__deleted": pa.array([r[4] for _, r in rows], pa.bool_()),
        }
        by_name = {
            "price": [r[2] for _, r in rows],
            "qty": [r[3] for _, r in rows],
            "product": [None if None in r[2:4] else r[2] * r[3] for _, r in rows],
            "counted": [None if r[3] is None else 1.0 for _, r in rows],
        }
        named = {
            "`price`": "price",
            "`qty`": "qty",
            "`price` * `qty`": "product",
            "CASE WHEN NOT `qty` IS NULL THEN 1 END": "counted",
        }
        for i, feature in enumerate(self.plan.features):
            columns[f"__f{i}"] = pa.array(by_name[named[feature.sql("spark")]], pa.float64())
        return batch_of(pa.table(columns), ["symbol"], len(self.plan.features))

    def state(self):
        constants = {} if self.plan.shape.groups else {"o0": pa.scalar("all")}
        return emit_on_drift.init(self.plan, constants)

    def step(self, state, first, last):
        times = self.times[(self.times >= first) & (self.times < last)]
        _, changes = emit_on_drift.step(self.plan, state, self.batch(first, last), times, CLOCK, self.run_weights)
        return told(changes, state)


CLOCK = Clock(T.IntegerType(), "UTC")


def told(changes, state):
    """Changes with the bits of their answers, by time and group; groups by name, as numbers depend on when they came."""
    names = [c for c in state.groups.rows.column_names if c[0] in "_g"]
    groups = list(zip(*(state.groups.rows[c].to_pylist() for c in names)))
    rows = zip(changes.time.tolist(), changes.group.tolist(), changes.diff.tolist(), changes.answer)
    return sorted([(t, repr(groups[g]), d, a.tobytes().hex()) for t, g, d, a in rows])


def counted(state):
    found = vars(emit_on_drift.counters(state))
    return {k: v.tolist() for k, v in found.items()}


@pytest.mark.parametrize("body", [BODY, GLOBAL])
@pytest.mark.parametrize("seed", range(4))
def test_steps_and_restarts_change_nothing(seed, body):
    world = World(seed, body)
    whole = world.state()
    all_at_once = world.step(whole, 0, 100)
    assert len(all_at_once) > 20
    parts, found = world.state(), []
    cuts = [0, *sorted(world.rng.sample(range(1, 60), 7)), 100]
    for first, last in itertools.pairwise(cuts):
        parts = pickle.loads(pickle.dumps(parts))
        found += world.step(parts, first, last)
    assert sorted(found) == all_at_once
    assert counted(parts) == counted(whole)
    assert parts.used.sum() == whole.used.sum() and parts.refused.sum() == whole.refused.sum() > 0


@pytest.mark.parametrize("body", [BODY, GLOBAL])
@pytest.mark.parametrize("threads", [1, 2, 7, 100])
def test_blocks_change_nothing(monkeypatch, body, threads):
    monkeypatch.setattr(drift_blocks, "BLOCK_WORK", 1)
    world = World(7, body, emit="EMIT EVERY INTERVAL '3' SECONDS")
    whole = world.state()
    all_at_once = world.step(whole, 0, 100)
    state = world.state()
    rows, ticks = emit_on_drift.kernel_rows(world.plan, state, world.batch(), world.times, CLOCK, world.run_weights)
    changes, blocks = drift_blocks.run_on_threads(world.plan, state, rows, ticks, threads)
    assert threads == 1 or len(drift_blocks.cut(world.plan, state, threads)) > 1
    assert told(changes, state) == all_at_once
    of_blocks = vars(emit_on_drift.counters(state, blocks))
    assert {k: v.tolist() for k, v in of_blocks.items()} == counted(whole)
    order = list(zip(changes.time.tolist(), changes.group.tolist()))
    assert order == sorted(order)


def test_new_weights_answer_as_if_they_had_always_been_there():
    """After a refresh every group is where a run over the new table would have it."""
    world = World(11, share=100)
    state = world.state()
    world.step(state, 0, 40)
    world.refill()
    emit_on_drift.rewired(world.plan, state, world.run_weights)
    world.step(state, 40, 41)
    fresh = world.state()
    world.step(fresh, 0, 41)
    assert truths(state) == truths(fresh)


def truths(state):
    """The current truth of every living group, by name, to within rounding."""
    names = [c for c in state.groups.rows.column_names if c[0] in "_g"]
    groups = list(zip(*(state.groups.rows[c].to_pylist() for c in names)))
    answers = state.totals.truth.reshape(len(groups), -1)
    alive = state.totals.alive == 1
    return {repr(g): [f"{x:.10g}" for x in a] for g, a, there in zip(groups, answers, alive) if there}


def test_weights_that_are_not_finite_are_refused():
    world = World(1)
    world.duck.execute("UPDATE holdings SET shares = 'nan' WHERE account = 'a'")
    with pytest.raises(deadband.DeadbandError, match="weights that are not finite"):
        world.step(world.state(), 0, 100)


def test_rows_for_no_group_change_nothing():
    world = World(2)
    world.duck.execute("DELETE FROM holdings")
    state = world.state()
    assert world.step(state, 0, 100) == []
    assert state.used.sum() == 0
    assert kernel.counted(state.wiring, state.totals)[0].sum() == 0
