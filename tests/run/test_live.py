"""Live equals replay: the same changes whatever the batches, restarts and crashes; late and refused rows are visible."""

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

STREAM = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at
  LATENESS INTERVAL '{lateness}' SECONDS DELETE WHEN price < 0 USING parquet OPTIONS (path '{folder}/in');
"""
QUERIES = """
CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value, COUNT(*) AS n
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account COHERENCY value WITHIN 20;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS s FROM quotes COHERENCY s WITHIN 1% FIDELITY 90%;
CREATE CONTINUOUS QUERY dear AS SELECT symbol, price FROM quotes WHERE price > 101;
CREATE CONTINUOUS QUERY top AS SELECT MAX(price) AS m, COUNT(*) AS n FROM quotes EMIT EVERY INTERVAL '5' SECONDS;
"""
NAMES = ("portfolio", "total", "dear", "top")


def trace(ticks: int, items: int = 6, seed: int = 3) -> pd.DataFrame:
    """Walks with gaps, ties and deletions; not every item has a row in every tick, one joins late."""
    rng = np.random.default_rng(seed)
    prices = np.round(100 * np.exp(np.cumsum(rng.normal(0, 0.01, (ticks, items)), axis=0)), 2)
    rows = []
    for tick in range(ticks):
        for item in range(items):
            if rng.random() < 0.6 and (item < items - 1 or tick > ticks // 2):
                price = -1.0 if rng.random() < 0.05 else prices[tick, item]
                rows.append((f"S{item}", price, pd.Timestamp("2024-03-01") + pd.Timedelta(seconds=tick)))
    return pd.DataFrame(rows, columns=["symbol", "price", "at"])


def holdings(scale: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = [
        (f"a{a}", f"S{s}", scale * float(rng.integers(-5, 20)))
        for a in range(5)
        for s in rng.choice(6, 3, replace=False)
    ]
    return pd.DataFrame(rows, columns=["account", "symbol", "shares"])


def put(folder: Path, number: int, rows: pd.DataFrame) -> None:
    """A file appears whole, in its turn: Spark takes files by modification time."""
    table = pa.table(
        {
            "symbol": pa.array(rows["symbol"]),
            "price": pa.array(rows["price"].to_numpy(), from_pandas=False),  # NaN stays NaN
            "at": pa.array(rows["at"].astype("datetime64[us]")),
        }
    )
    aside, path = folder / f".{number}.aside", folder / "in" / f"{number:04d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, aside)
    os.utime(aside, (1_000_000 + number * 10,) * 2)
    os.replace(aside, path)


def connected(spark, folder: Path, lateness: int = 0, queries: str = QUERIES):
    (folder / "in").mkdir(parents=True, exist_ok=True)
    db = deadband.connect(spark)
    db.register("holdings", holdings())
    db.sql(STREAM.format(folder=folder, lateness=lateness) + queries)
    return db


def merged(parts: list[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    found = {}
    for name in NAMES:
        frames = [p[name] for p in parts if len(p[name])]
        found[name] = pd.concat(frames, ignore_index=True)
    return found


def answers(running) -> dict[str, pd.DataFrame]:
    return {name: running.answers(name) for name in NAMES}


def check_like_replay(db, live: dict[str, pd.DataFrame], closed: dict[str, pd.Timestamp]) -> None:
    """Live changes are the replay's, as far as time has closed."""
    run = db.replay()
    for name in NAMES:
        expected = run.answers(name)
        expected = expected[expected["ts"] < closed[name]]
        columns = list(expected.columns)
        left = live[name].sort_values(columns, ignore_index=True)
        right = expected.sort_values(columns, ignore_index=True)
        pd.testing.assert_frame_equal(left, right, obj=name)


def test_batches_and_restarts_do_not_matter(spark, tmp_path):
    rows = trace(40)
    cuts = [0, 1, 30, 31, 75, 120, len(rows)]
    db = connected(spark, tmp_path)
    parts = []
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        put(tmp_path, number, rows[first:last])
        if number in (1, 3, 5):
            running = db.start(checkpoint=str(tmp_path / "checkpoint"), once=True)
            running.await_idle()
            parts.append(answers(running))
            metrics = running.metrics()
            running.stop()
    closed = metrics["components"][0]["closed_until"]
    assert closed == rows["at"].max()
    top = closed.floor("5s")
    check_like_replay(db, merged(parts), {"portfolio": closed, "total": closed, "dear": closed, "top": top})
    live, report = metrics["report"], db.replay().report()
    assert live["portfolio"]["late"] == 0
    assert live["portfolio"]["initial"] <= report["portfolio"]["initial"]
    snapshots = list((tmp_path / "checkpoint").glob("component-0/snapshots/*.snapshot"))
    assert len(snapshots) == 2


def test_late_and_refused_rows_are_counted_and_kept(spark, tmp_path):
    rows = trace(20)
    db = connected(spark, tmp_path, lateness=2)
    put(tmp_path, 0, rows[rows["at"] < rows["at"].min() + pd.Timedelta(seconds=10)])
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    newest = rows["at"].min() + pd.Timedelta(seconds=9)
    assert running.metrics()["components"][0]["closed_until"] == newest - pd.Timedelta(seconds=2)
    in_time = pd.DataFrame({"symbol": ["S0"], "price": [7.0], "at": [newest - pd.Timedelta(seconds=2)]})
    late = pd.DataFrame({"symbol": ["S1", "S2"], "price": [1e6, 1e6], "at": [newest - pd.Timedelta(seconds=3)] * 2})
    refused = pd.DataFrame({"symbol": [None, "S3"], "price": [1.0, np.nan], "at": [newest] * 2})
    put(tmp_path, 1, pd.concat([in_time, late, refused]))
    put(tmp_path, 2, rows[rows["at"] > newest])
    running.await_idle()
    report = running.report()
    running.stop()
    assert report["portfolio"]["late"] == report["dear"]["late"] == 2
    assert report.total["late"] == 2
    assert report["dear"]["rejected"] == 1, "a null key; NaN keeps its Spark meaning in an exact query"
    assert report["portfolio"]["rejected"] == 2, "a null key, and a NaN that cannot be summed"
    letters = pd.read_parquet(tmp_path / "checkpoint" / "component-0" / "dead" / "quotes")
    assert sorted(letters["__reject"]) == ["late", "late", "symbol is NULL, and it is part of the key"]
    force = running.answers("dear")
    assert 1e6 not in set(force["price"])


def test_a_crash_inside_a_batch_is_not_seen(spark, tmp_path):
    """kill -9 after the snapshot, before Spark's commit: the batch comes again, and nothing is told twice to state."""
    rows = trace(30)
    script = tmp_path / "crash.py"
    script.write_text(
        "import sys, os, signal, pathlib\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_live, deadband\n"
        "from deadband.runtime import live\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "deliver = live._Part._deliver\n"
        "def crash(self, outcome, batch):\n"
        "    if batch == 1:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    deliver(self, outcome, batch)\n"
        "live._Part._deliver = crash\n"
        "db = test_live.connected(None, folder)\n"
        "running = db.start(checkpoint=str(folder / 'checkpoint'))\n"
        "running.await_idle()\n"
        "print('first batch done', flush=True)\n"
        "sys.stdin.readline()\n"
        "running.await_idle()\n"
    )
    put(tmp_path, 0, rows[:40])
    child = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline().strip() == "first batch done"
    put(tmp_path, 1, rows[40:80])
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.wait(timeout=120) == -signal.SIGKILL
    put(tmp_path, 2, rows[80:])
    db = connected(spark, tmp_path)
    told = []
    db.subscribe("portfolio", lambda ts, row, diff: told.append((ts, row["account"], diff)))
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    live, closed = answers(running), running.metrics()["components"][0]["closed_until"]
    running.stop()
    assert len(told) == len(live["portfolio"])
    run = db.replay()
    first = rows["at"][39]  # batch 0 was delivered to the process that died
    for name in ("portfolio", "dear"):
        expected = run.answers(name)
        expected = expected[(expected["ts"] >= first) & (expected["ts"] < closed)]
        columns = list(expected.columns)
        pd.testing.assert_frame_equal(
            live[name].sort_values(columns, ignore_index=True),
            expected.sort_values(columns, ignore_index=True),
            obj=name,
        )


def test_refresh_table_switches_at_a_batch_boundary(spark, tmp_path):
    queries = """
    CREATE CONTINUOUS QUERY value AS SELECT h.account, SUM(h.shares * q.price) AS v
      FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account COHERENCY v WITHIN 0;
    CREATE CONTINUOUS QUERY plain AS SELECT h.account, SUM(h.shares * q.price) AS v
      FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account;
    """
    rows = trace(12)
    half = rows["at"].min() + pd.Timedelta(seconds=6)
    db = connected(spark, tmp_path, queries=queries)
    put(tmp_path, 0, rows[rows["at"] < half])
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    db.register("holdings", holdings(scale=2.0)[:-3])
    db.sql("REFRESH TABLE holdings")
    put(tmp_path, 1, rows[rows["at"] >= half])
    running.await_idle()
    closed = running.metrics()["components"][0]["closed_until"]
    running.stop()
    force = running.answers("value").groupby("account").last()
    force = force[force["diff"] == 1]["v"]
    plain = running.answers("plain").groupby(["account", "v"])["diff"].sum().reset_index()
    plain = plain[plain["diff"] != 0].set_index("account")
    assert (plain["diff"] == 1).all()
    state = rows[rows["at"] < closed].groupby("symbol").last()
    state = state[state["price"] >= 0]
    truth = holdings(scale=2.0)[:-3].merge(state, on="symbol")
    truth = (truth["shares"] * truth["price"]).groupby(truth["account"]).sum()
    pd.testing.assert_series_equal(force.sort_index(), truth.sort_index(), check_names=False)
    pd.testing.assert_series_equal(plain["v"].sort_index(), truth.sort_index(), check_names=False)


def test_two_streams_close_together(spark, tmp_path):
    db = deadband.connect(spark)
    db.sql(f"""
    CREATE STREAM a (k STRING, x DOUBLE, t BIGINT) KEY (k) TIMESTAMP BY t USING parquet OPTIONS (path '{tmp_path}/a');
    CREATE STREAM b (k STRING, y DOUBLE, t BIGINT) KEY (k) TIMESTAMP BY t USING parquet OPTIONS (path '{tmp_path}/b');
    CREATE CONTINUOUS QUERY both AS SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k;
    CREATE CONTINUOUS QUERY sums AS SELECT SUM(x) AS s FROM a COHERENCY s WITHIN 1;
    """)
    left = pd.DataFrame({"k": list("uvuv"), "x": [1.0, 2.0, 3.0, 9.0], "t": [0, 1, 4, 6]})
    right = pd.DataFrame({"k": list("uvu"), "y": [5.0, 6.0, 7.0], "t": [0, 3, 5]})
    for name, frame in (("a", left), ("b", right)):
        (tmp_path / name).mkdir()
        frame.to_parquet(tmp_path / name / "0.parquet")
    running = db.start(checkpoint=str(tmp_path / "checkpoint"))
    running.await_idle()
    metrics = running.metrics()["components"]
    assert len(metrics) == 1
    assert metrics[0]["closed_until"] == 5, "the slower stream decides"
    got = running.answers("both")
    sums = running.answers("sums")
    running.stop()
    expected = db.replay().answers("both")
    pd.testing.assert_frame_equal(got, expected[expected["ts"] < 5].reset_index(drop=True))
    assert list(sums["ts"]) == [0, 1, 4]


def test_mistakes_are_clear(spark, tmp_path):
    db = connected(spark, tmp_path)
    with pytest.raises(DeadbandError, match="bounded"):
        db.start(checkpoint=str(tmp_path / "c1"), frames={"quotes": trace(3)})
    put(tmp_path, 0, trace(5))
    running = db.start(checkpoint=str(tmp_path / "c2"), once=True)
    running.await_idle()
    with pytest.raises(DeadbandError, match="unknown continuous query portfolo"):
        running.answers("portfolo")
    running.stop()
    db.sql("ALTER CONTINUOUS QUERY portfolio SET COHERENCY value WITHIN 10")
    with pytest.raises(DeadbandError, match="belongs to other queries"):
        db.start(checkpoint=str(tmp_path / "c2"))
    with pytest.raises(DeadbandError, match="no continuous query"):
        deadband.connect(spark).start(checkpoint=str(tmp_path / "c3"))
