"""PRECISION live: the changes of a replay whatever the batches, restarts and crashes; queries that come, go and change."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deadband
from deadband import DeadbandError
from deadband.runtime.snapshot import Snapshots
from tests.run.replay_oracle import PlainSql, Stream, in_force, interval_misses, quick

__all__ = ["quick"]
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick")]

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("at", pa.int64())])
STREAM = """
CREATE STREAM s (k STRING, x DOUBLE, at BIGINT) KEY (k) TIMESTAMP BY at {clauses}
  DELETE WHEN x < 0 USING parquet OPTIONS (path '{folder}/in'{options});
"""
JOIN = "FROM s JOIN held h ON s.k = h.k GROUP BY h.g"
SUMS = f"SELECT h.g, SUM(h.w * s.x) AS v, COUNT(*) AS n {JOIN}"
RANGE = f"SELECT h.g, MIN(s.x) AS lo, AVG(s.x) AS mean {JOIN}"


def walks(ticks: int, items: int = 6, seed: int = 3, deletes: float = 0.02) -> list[dict]:
    """Walks with gaps and deletions, each of which is a round trip live; not every key has a row in every tick, one joins late."""
    rng, rows = np.random.default_rng(seed), []
    x = 100 + rng.normal(0, 1, (ticks, items)).cumsum(axis=0)
    for tick, item in itertools.product(range(ticks), range(items)):
        if rng.random() < 0.6 and (item < items - 1 or tick > ticks // 2):
            gone = rng.random() < deletes
            rows.append({"k": f"k{item}", "x": -1.0 if gone else float(x[tick, item]), "at": tick})
    return rows


def held(scale: float = 1.0, more: tuple = ()) -> pa.Table:
    rng = np.random.default_rng(5)
    found = [
        (f"k{k}", g, scale * float(rng.integers(-5, 20))) for g in range(3) for k in rng.choice(6, 3, replace=False)
    ]
    k, g, w = zip(*found, *more)
    return pa.table({"k": k, "g": g, "w": w})


def put(folder: Path, number: int, rows: list[dict]) -> None:
    """A file appears whole, in its turn: Spark takes files by modification time."""
    aside, path = folder / f".{number}.aside", folder / "in" / f"{number:04d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), aside)
    os.utime(aside, (1_000_000 + number * 10,) * 2)
    os.replace(aside, path)


def connected(spark, folder: Path, queries: dict[str, str], clauses: str = "", options: str = "", method="adaptive"):
    (folder / "in").mkdir(parents=True, exist_ok=True)
    db = deadband.connect(spark)
    db.register("held", held())
    db.sql(STREAM.format(folder=folder, clauses=clauses, options=options) + f"SET filters = {method}")
    for name, text in queries.items():
        db.sql(f"CREATE CONTINUOUS QUERY {name} AS {text}")
    return db


def same(live: pd.DataFrame, expected: pd.DataFrame, name: str) -> None:
    columns = list(expected.columns)
    live, expected = (f.sort_values(columns, ignore_index=True) for f in (live, expected))
    pd.testing.assert_frame_equal(live, expected, check_exact=True, obj=name)


def holds(answers, rows, table, body, groups, bounds, ticks) -> None:
    """The promise at these ticks; rows are what truth counts."""
    stream = Stream("s", SCHEMA, ["k"], "at", list(rows), gone=lambda row: row["x"] is not None and row["x"] < 0)
    sql = PlainSql([stream], {"held": table})
    truth = dict(zip(sql.ticks, sql.answers([body])[body]))
    for tick, reported in zip(ticks, in_force(answers, groups, list(ticks))):
        wrong = interval_misses(reported, truth[tick], groups, bounds)
        assert not wrong, (tick, wrong)


def between(rows: list[dict], first: int, last: int) -> list[dict]:
    return [r for r in rows if first <= r["at"] < last]


def test_batches_and_restarts_do_not_matter(spark, tmp_path):
    rows = walks(30)
    texts = {"sums": f"{SUMS} PRECISION v WITHIN 40", "range": f"{RANGE} PRECISION lo WITHIN 1%, mean WITHIN 2"}
    db = connected(spark, tmp_path, {})
    for method in ("adaptive", "reference", "uniform"):
        db.sql(f"SET filters = {method}")
        for name, text in texts.items():
            db.sql(f"CREATE CONTINUOUS QUERY {name}_{method} AS {text}")
    parts = {name: [] for name in db.queries}
    for number, (first, last) in enumerate(itertools.pairwise([0, 30, 31, 80, len(rows)])):
        put(tmp_path, number, rows[first:last])
        if number in (1, 3):
            running = db.start(checkpoint=str(tmp_path / "checkpoint"), once=True)
            running.await_idle()
            for name in parts:
                parts[name].append(running.answers(name))
            report, closed = running.report(), running.metrics()["components"][0]["closed_until"]
            running.stop()
    assert closed == rows[-1]["at"]
    run = db.replay()
    for name, answers in parts.items():
        expected = run.answers(name)
        same(pd.concat(answers, ignore_index=True), expected[expected["ts"] < closed], name)
        figures = report[name]
        assert figures["initial"] == 6 and figures["messages"] <= figures["baseline"], name
    assert report.total["updates"] == len(rows), "three sets of filters read each row, and it counts once"
    assert report.total["messages"] < sum(report[q]["messages"] for q in report), "shared messages count once"


def test_late_rows_and_refused_ones(spark, tmp_path):
    """Rows within LATENESS take their place in time; later ones are counted and kept as dead letters."""
    rows = walks(24)
    db = connected(spark, tmp_path, {"sums": f"{SUMS} PRECISION v WITHIN 40"}, "LATENESS INTERVAL '3' SECONDS")
    swapped = [r for r in rows if r["at"] == 9 and r["k"] in ("k0", "k2")]
    assert swapped
    put(tmp_path, 0, [r for r in between(rows, 0, 12) if r not in swapped])
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    assert running.metrics()["components"][0]["closed_until"] == 8
    late = [{"k": "k1", "x": 1e6, "at": 7}, {"k": "k2", "x": 1e6, "at": 0}]
    bad = [{"k": None, "x": 1.0, "at": 11}, {"k": "k3", "x": float("nan"), "at": 11}]
    put(tmp_path, 1, late + bad + swapped[::-1])
    put(tmp_path, 2, between(rows, 12, 24))
    running.await_idle()
    report, answers = running.report(), running.answers("sums")
    running.stop()
    holds(answers, rows, held(), SUMS, ["g"], {"v": "40"}, range(20))
    assert (report["sums"]["late"], report.total["late"]) == (2, 2)
    assert report["sums"]["rejected"] == 2, "a null key, and a NaN that cannot be summed"
    (folder,) = (tmp_path / "checkpoint").glob("filters-*/dead/s")
    assert sorted(pd.read_parquet(folder)["__reject"]) == ["k is NULL, and it is part of the key", "late", "late"]


def test_a_crash_inside_a_batch_is_not_seen(spark, tmp_path):
    """kill -9 after the snapshot, before Spark's commit: the batch comes again."""
    rows = walks(30, deletes=0.01)
    texts = {"sums": f"{SUMS} PRECISION v WITHIN 40"}
    script = tmp_path / "crash.py"
    script.write_text(
        "import sys, os, signal, pathlib\n"
        f"sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[2])!r}]\n"
        "import test_filters_live as tests\n"
        "from deadband.runtime import live\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "deliver = live._Part._deliver\n"
        "def crash(self, outcome, batch):\n"
        "    if batch == 1:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    deliver(self, outcome, batch)\n"
        "live._Part._deliver = crash\n"
        "settings = {'spark.sql.codegen.wholeStage': 'false', 'spark.sql.codegen.factoryMode': 'NO_CODEGEN'}\n"
        "spark = tests.deadband.connect(**settings).spark\n"
        f"db = tests.connected(spark, folder, {texts!r}, method='reference')\n"
        "running = db.start(checkpoint=str(folder / 'checkpoint'))\n"
        "running.await_idle()\n"
        "print('first batch done', flush=True)\n"
        "sys.stdin.readline()\n"
        "running.await_idle()\n"
    )
    put(tmp_path, 0, between(rows, 0, 10))
    child = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline().strip() == "first batch done"
    put(tmp_path, 1, between(rows, 10, 20))
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.wait(timeout=120) == -signal.SIGKILL
    put(tmp_path, 2, between(rows, 20, 30))
    db = connected(spark, tmp_path, texts, method="reference")
    running = db.start(checkpoint=str(tmp_path / "checkpoint"), once=True)
    running.await_idle()
    answers, report = running.answers("sums"), running.report()["sums"]
    running.stop()
    run = db.replay()
    expected = run.answers("sums")  # batch 0 was delivered to the process that died
    same(answers, expected[(expected["ts"] >= 9) & (expected["ts"] < 29)], "sums")
    assert report["messages"] <= run.report()["sums"]["messages"]


def test_queries_come_go_and_change_while_streams_run(spark, tmp_path):
    rows, table = walks(40, deletes=0.005), held()
    total = "SELECT SUM(x) AS v, COUNT(*) AS n FROM s WHERE k <> 'k3'"
    db = connected(spark, tmp_path, {"sums": f"{SUMS} PRECISION v WITHIN 40"}, method="uniform")
    put(tmp_path, 0, between(rows, 0, 10))
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    db.sql(f"CREATE CONTINUOUS QUERY total AS {total} PRECISION v WITHIN 12")
    put(tmp_path, 1, between(rows, 10, 16))
    running.await_idle()
    first = running.answers("total")
    holds(first, rows, table, total, [], {"v": "12"}, range(9, 15))
    db.sql("ALTER CONTINUOUS QUERY total SET PRECISION v WITHIN 2")
    put(tmp_path, 2, between(rows, 16, 22))
    running.await_idle()
    answers = running.answers("total")
    told = in_force(answers, [], list(range(9, 21)))
    assert all(now[()]["high"] - now[()]["low"] <= 2 for now in told[15 - 9 :]), "from the first tick of the batch on"
    holds(answers, rows, table, total, [], {"v": "12"}, range(9, 21))
    db.sql("ALTER CONTINUOUS QUERY total SET PRECISION v WITHIN 60")
    new = held(scale=2.0, more=(("k0", 8, 1.0),))
    db.register("held", new)
    db.sql("REFRESH TABLE held")
    put(tmp_path, 3, between(rows, 22, 30))
    running.await_idle()
    holds(running.answers("total"), rows, table, total, [], {"v": "60"}, range(9, 29))
    before = running.answers("sums")
    holds(before[before["ts"] < 21], rows, table, SUMS, ["g"], {"v": "40"}, range(21))
    after = in_force(before, ["g"], list(range(29)))[21:]
    stream = Stream("s", SCHEMA, ["k"], "at", rows, gone=lambda row: row["x"] < 0)
    sql = PlainSql([stream], {"held": new})
    truth = sql.answers([SUMS])[SUMS]
    for tick, reported in enumerate(after, 21):
        assert not interval_misses(reported, truth[sql.ticks.index(tick)], ["g"], {"v": "40"}), tick
    with pytest.raises(DeadbandError, match="only queries with PRECISION can be created"):
        db.sql("CREATE CONTINUOUS QUERY other AS SELECT SUM(x) AS v FROM s COHERENCY v WITHIN 1")
    assert db.queries == ["sums", "total"]
    db.sql("DROP CONTINUOUS QUERY total")
    with pytest.raises(DeadbandError, match="unknown continuous query total"):
        running.answers("total")
    put(tmp_path, 4, between(rows, 30, 40))
    running.await_idle()
    report, answers = running.report(), running.answers("sums")
    running.stop()
    assert list(report) == ["sums"]
    for tick, reported in enumerate(in_force(answers, ["g"], list(range(39)))[29:], 29):
        assert not interval_misses(reported, truth[sql.ticks.index(tick)], ["g"], {"v": "40"}), tick
    again = db.start(checkpoint=str(tmp_path / "checkpoint"))  # the checkpoint belongs to what is left
    again.await_idle()
    db.sql("DROP CONTINUOUS QUERY sums")
    put(tmp_path, 5, [{"k": "k0", "x": 1.0, "at": 41}])
    db.sql(f"CREATE CONTINUOUS QUERY late AS {total} PRECISION v WITHIN 3")
    again.await_idle()
    holds(again.answers("late"), rows, table, total, [], {"v": "3"}, range(40))
    db.sql("ALTER CONTINUOUS QUERY late SET PRECISION v WITHIN 5")
    again.stop()
    again = db.start(checkpoint=str(tmp_path / "checkpoint"), once=True)  # altered, and no batch since
    again.await_idle()
    again.stop()


@pytest.mark.parametrize("how", ["unwanted", "refused"])
def test_a_new_query_knows_rows_from_before(spark, tmp_path, how):
    """A key that no query wanted, or whose last row was refused, counts with its last good row."""
    rows = [{"k": k, "x": 50.0 + t, "at": t} for t in range(3) for k in ("k0", "k1")]
    still = [{"k": "k9", "x": 90.0, "at": 2}] if how == "unwanted" else [{"k": "k1", "x": 54.0, "at": 3}]
    bad = [{"k": "k1", "x": float("nan"), "at": 4}] if how == "refused" else []
    later = [{"k": "k0", "x": 60.0 + t, "at": t} for t in range(3, 8)]
    body = "SELECT SUM(x) AS v, COUNT(*) AS n FROM s"
    wanted = "SELECT SUM(x) AS v FROM s WHERE k IN ('k0', 'k1') PRECISION v WITHIN 40"
    db = connected(spark, tmp_path, {"wanted": wanted}, method="uniform")
    put(tmp_path, 0, [*rows, *still, *bad, *later[:3]])
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    db.sql(f"CREATE CONTINUOUS QUERY every AS {body} PRECISION v WITHIN 0.1")
    put(tmp_path, 1, later[3:])
    running.await_idle()
    answers = running.answers("every")
    running.stop()
    holds(answers, rows + still + later, held(), body, [], {"v": "0.1"}, [5, 6])


def test_a_crash_after_batches_that_closed_nothing(spark, tmp_path, monkeypatch):
    """The last thing that the sites wrote is several batches old when a batch dies before its snapshot."""
    rows = walks(30)
    db = connected(
        spark, tmp_path, {"sums": f"{SUMS} PRECISION v WITHIN 40"}, "LATENESS INTERVAL '9' SECONDS", method="uniform"
    )
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    put(tmp_path, 0, between(rows, 0, 20))
    for number in range(1, 5):
        running.await_idle()
        put(tmp_path, number, [r for r in rows if r["at"] == 19][:1])
    running.await_idle()
    save = Snapshots.save
    monkeypatch.setattr(Snapshots, "save", lambda self, batch, content: 1 / 0)
    put(tmp_path, 5, between(rows, 20, 30))
    with pytest.raises(DeadbandError, match="division by zero"):
        running.await_idle()
    first = running.answers("sums")
    monkeypatch.setattr(Snapshots, "save", save)
    running = db.start(checkpoint=str(tmp_path / "checkpoint"), once=True)
    running.await_idle()
    expected = db.replay().answers("sums")
    same(pd.concat([first, running.answers("sums")]), expected[expected["ts"] < 20], "sums")


def test_change_rates_answer_at_once(spark, tmp_path):
    """Keys move by at most 1 a second, k1 is two ticks late from its third row on: truth counts those rows, and is inside."""
    rng = np.random.default_rng(2)
    x = 50 + np.clip(rng.normal(0, 0.6, (30, 2)), -1, 1).cumsum(axis=0)
    rows = [{"k": f"k{i}", "x": float(x[t, i]), "at": t} for t in range(30) for i in range(2)]
    body = "SELECT SUM(x) AS v FROM s"
    db = connected(
        spark, tmp_path, {"q": f"{body} PRECISION v WITHIN 12"}, "LATENESS INTERVAL '2' SECONDS", ", change_rate '1'"
    )
    seen = [(r, r["at"] + 2 * (r["k"] == "k1" and r["at"] > 1)) for r in rows]
    arrives = [[r for r, at in seen if at in range(a, b)] for a, b in ((0, 8), (8, 16), (16, 30))]
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    for number, part in enumerate(arrives):
        put(tmp_path, number, part)
        running.await_idle()
        assert running.metrics()["components"][0]["closed_until"] == max(r["at"] for r in part), "nothing waits"
    answers, report = running.answers("q"), running.report()
    running.stop()
    assert report["q"]["late"] == 0
    holds(answers, rows, held(), body, [], {"v": "12"}, range(29))


def test_only_what_passes_a_filter_comes_to_the_driver(spark, tmp_path):
    """Counted by Spark itself: the rows of the job that is collected."""
    rng = np.random.default_rng(4)
    rows = [{"k": f"k{i}", "x": 100 + 9 * i + float(rng.normal(0, 1)), "at": t} for t in range(200) for i in range(6)]
    rows += [{"k": "alone", "x": float(t), "at": t} for t in range(200)]
    db = connected(spark, tmp_path, {"sums": f"{SUMS} PRECISION v WITHIN 2000"})
    put(tmp_path, 0, [r for r in rows if r["at"] < 50])
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    (part,) = running._parts
    before = part.state.passed
    put(tmp_path, 1, [r for r in rows if r["at"] >= 50])
    running.await_idle()
    report, passed = running.report()["sums"], part.state.passed - before
    running.stop()
    assert report["baseline"] > 1000 > 50 * report["messages"]
    assert passed <= report["messages"] + 12 * part.state.trips, "messages, and what filters are asked for"
    assert before >= report["initial"]
