"""Replays end to end: at every tick the answer in force against DuckDB's answer to the plain SQL."""

import random

import pandas as pd
import pyarrow as pa
import pytest

import deadband
from tests.run.replay_oracle import PlainSql, Stream, in_force, misses, quick

__all__ = ["quick"]
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick")]

QUOTES = """CREATE STREAM quotes (symbol STRING, price DOUBLE, qty INT, note STRING, at INT)
  KEY (symbol) TIMESTAMP BY at DELETE WHEN note = 'gone'"""
QUOTES_ARROW = pa.schema(
    [("symbol", pa.string()), ("price", pa.float64()), ("qty", pa.int32()), ("note", pa.string()), ("at", pa.int32())]
)
SYMBOLS = ["A", "B", "C", "D", "é", ""]

# body, group columns, bounds; a column without a bound is exact
JOINED = "FROM quotes q JOIN holdings h ON q.symbol = h.symbol"
BODIES = {
    "portfolio": (f"SELECT h.account, SUM(h.shares * q.price) AS v {JOINED} GROUP BY h.account", "account", {"v": "40"}),
    "percent": (f"SELECT h.account, SUM(h.shares * q.price) AS v {JOINED} GROUP BY h.account", "account", {"v": "15%"}),
    "exactly": (f"SELECT h.account, SUM(h.shares * q.price) AS v {JOINED} GROUP BY h.account", "account", {"v": "0"}),
    "several": (
        f"SELECT h.account, AVG(q.price) AS m, COUNT(*) AS n, SUM(h.n * q.price) AS v, h.kind {JOINED} GROUP BY h.account, h.kind",
        "account kind",
        {"m": "3", "v": "25%"},
    ),
    "profit": (
        f"SELECT h.kind, SUM(h.shares * (q.price - h.cost)) AS v, AVG(h.shares * (q.price - h.cost) + 1) AS m {JOINED} GROUP BY h.kind",
        "kind",
        {"v": "30", "m": "4"},
    ),
    "counts": (
        f"SELECT h.kind, COUNT(q.price) AS p, COUNT(q.note) AS t, COUNT(h.cost) AS c, COUNT(q.price * h.cost) AS pc, COUNT(1) AS n {JOINED} GROUP BY h.kind",
        "kind",
        {"p": "1"},
    ),
    "world": ("SELECT SUM(q.price) AS v, COUNT(*) AS n, AVG(q.qty) AS m FROM quotes q", "", {"v": "8"}),
    "nobody": ("SELECT SUM(price) AS v, COUNT(*) AS n, COUNT(price) AS c FROM quotes WHERE symbol = 'nobody'", "", {"v": "8"}),
    "cases": (
        f"SELECT h.account, SUM(CASE WHEN h.shares > 0 THEN q.price WHEN h.shares < 0 THEN -2 * q.price END) AS v, "
        f"SUM(CASE h.kind WHEN 1 THEN q.price ELSE h.cost END) AS w, SUM(IF(h.cost > 1, q.price, 0)) AS x {JOINED} GROUP BY h.account",
        "account",
        {"v": "9", "w": "9", "x": "9"},
    ),
    "filtered": (
        f"SELECT h.account, SUM(q.price) FILTER (WHERE h.cost > 1) AS v, COUNT(*) FILTER (WHERE h.kind = 1) AS n {JOINED} GROUP BY h.account",
        "account",
        {"v": "9"},
    ),
    "filled": (
        f"SELECT h.account, COALESCE(SUM(q.price * h.cost), 0) AS v, COALESCE(AVG(q.price), -1.5) AS m, SUM(COALESCE(q.price, 0)) AS z {JOINED} GROUP BY h.account",
        "account",
        {"v": "9", "m": "2", "z": "9"},
    ),
    "one_row": (
        "SELECT symbol, SUM(price * qty) AS v, SUM(ABS(price) + 1) AS a, SUM(CASE WHEN price > 50 THEN qty ELSE 0 END) AS c FROM quotes GROUP BY symbol",
        "symbol",
        {"v": "60", "a": "5", "c": "1"},
    ),
    "divided": (
        f"SELECT h.kind, SUM(q.price / q.qty) AS v, AVG(q.price / h.cost) AS w, SUM(h.shares / h.cost) AS s {JOINED} GROUP BY h.kind",
        "kind",
        {"v": "6", "w": "6"},
    ),
    "moved": (
        "SELECT SUM(price) + 10 AS v, AVG(price) * 2 AS m, SUM(qty) / 4 AS f, 3 * SUM(qty) AS t, COUNT(*) - 1 AS n, 'x' AS tag FROM quotes",
        "tag",
        {"v": "8", "m": "3", "f": "0.5"},
    ),
    "expressions": (
        f"SELECT UPPER(h.account) || '!' AS a, h.cost > 1 AS dear, SUM(q.price) AS v {JOINED} GROUP BY UPPER(h.account), h.cost > 1",
        "a dear",
        {"v": "9"},
    ),
    "sectors": (
        f"SELECT h.account, s.sector, SUM(q.price * h.shares * s.weight) AS v {JOINED} JOIN sectors s ON s.symbol = q.symbol GROUP BY h.account, s.sector",
        "account sector",
        {"v": "50"},
    ),
    "left_join": (
        "SELECT s.sector, SUM(q.price * s.weight) AS v, COUNT(*) AS n, COUNT(s.weight) AS k FROM quotes q LEFT JOIN sectors s ON s.symbol = q.symbol GROUP BY s.sector",
        "sector",
        {"v": "9"},
    ),
    "whole": ("SELECT symbol, SUM(qty) AS v, AVG(qty) AS m FROM quotes GROUP BY symbol", "symbol", {"v": "3"}),
    "zero": (f"SELECT h.account, SUM(0 * q.price) AS z, SUM(h.zero * q.price) AS y {JOINED} GROUP BY h.account", "account", {"z": "1", "y": "1"}),
    "static": (f"SELECT h.account, SUM(h.shares) AS v, COUNT(h.cost) AS n, SUM(q.price * 0 + h.n) AS w {JOINED} GROUP BY h.account", "account", {"v": "1"}),
    "using_key": ("SELECT account, SUM(shares * price) AS v FROM quotes JOIN holdings USING (symbol) WHERE shares <> 0 GROUP BY 1", "account", {"v": "9"}),
    "merged": (
        "WITH q AS (SELECT symbol AS s, price * 2 AS twice FROM quotes), h AS (SELECT * FROM holdings WHERE kind IS NOT NULL) "
        "SELECT h.kind, SUM(q.twice * h.shares) AS v FROM h JOIN q ON q.s = h.symbol GROUP BY h.kind",
        "kind",
        {"v": "60"},
    ),
    "crossed": ("SELECT h.account, SUM(q.price * h.n) AS v FROM holdings h, quotes q WHERE h.kind = 1 AND q.symbol <> 'A' GROUP BY h.account", "account", {"v": "60"}),
    "cast": (f"SELECT h.account, SUM(CAST(q.price * h.shares AS DOUBLE)) AS v, SUM(CAST(q.qty AS DOUBLE)) AS w {JOINED} GROUP BY h.account", "account", {"v": "9"}),
}  # fmt: skip


def holdings(rng):
    rows = []
    for _ in range(30):
        rows.append(
            {
                "account": rng.choice((None, "a", "b", "c", "ü")),
                "symbol": rng.choice((*SYMBOLS[:5], None, "unknown")),
                "shares": rng.choice((0.0, 1.0, -2.5, 4.0, None, 0.1)),
                "cost": rng.choice((None, 0.0, 1.5, 60.0)),
                "kind": rng.choice((None, 1, 2)),
                "n": rng.choice((0, 1, -3)),
                "zero": 0.0,
            }
        )
    kinds = [("account", pa.string()), ("symbol", pa.string()), ("shares", pa.float64()), ("cost", pa.float64())]
    return pa.Table.from_pylist(
        rows + rows[:5], schema=pa.schema([*kinds, ("kind", pa.int32()), ("n", pa.int64()), ("zero", pa.float64())])
    )


SECTORS = pa.table(
    {"symbol": ["A", "B", "B", "C"], "sector": ["tech", "tech", "food", None], "weight": [1.0, 0.5, -0.5, None]}
)


def quotes(rng, ticks=25):
    """A trace of walks, jumps, NULLs, deletes, duplicates in a tick, out of order in the frame."""
    stream = Stream("quotes", QUOTES_ARROW, ["symbol"], "at", gone=lambda row: row["note"] == "gone")
    price = dict.fromkeys(SYMBOLS, 50.0)
    for at in range(-3, ticks - 3):
        for symbol in rng.sample(SYMBOLS, rng.randint(0 if at > -3 else 1, 5)):
            for _ in range(rng.choice((1, 1, 1, 2))):
                price[symbol] += rng.choice((0, 0.5, -0.5, rng.gauss(0, 4), rng.gauss(0, 40)))
                row = {
                    "symbol": symbol,
                    "price": price[symbol],
                    "qty": rng.choice((0, 1, 5, -2, None)),
                    "note": rng.choice((None, "x")),
                }
                if rng.random() < 0.1:
                    row["price"] = None
                if rng.random() < 0.12:
                    row["note"] = "gone"
                stream.rows.append({**row, "at": at})
    by_time = list(stream.rows)
    rng.shuffle(by_time)  # source order within a tick is what it is after this
    stream.rows = by_time
    return stream


def clause(bounds):
    return f"COHERENCY {', '.join(f'{c} WITHIN {b}' for c, b in bounds.items())}"


def connect(spark, tables, **options):
    db = deadband.connect(spark=spark, **options)
    for name, table in tables.items():
        db.register(name, table)
    return db


def check(answers, truth, ticks, groups, bounds, name=""):
    """Every tick: the groups of plain SQL, each within its bound."""
    for tick, reported, rows in zip(ticks, in_force(answers, groups, ticks), truth, strict=True):
        wrong = misses(reported, rows, groups, bounds)
        assert not wrong, f"{name} at {tick}: {wrong}"


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_keep_their_bounds_at_every_tick(spark, seed):
    rng = random.Random(seed)
    stream, tables = quotes(rng), {"holdings": holdings(rng), "sectors": SECTORS}
    db = connect(spark, tables)
    db.sql(QUOTES)
    for name, (body, _, bounds) in BODIES.items():
        db.sql(f"CREATE CONTINUOUS QUERY {name} AS {body} {clause(bounds)}")
    run = db.replay({"quotes": stream.table()})
    plain = PlainSql([stream], tables)
    truth = plain.answers([body for body, _, _ in BODIES.values()])
    report = run.report()
    for name, (body, groups, bounds) in BODIES.items():
        check(run.answers(name), truth[body], plain.ticks, groups.split(), bounds, name)
        assert report[name]["violations"] == 0 and report[name]["fidelity"] == 1
        changed = sum(a != b for a, b in zip(truth[body], truth[body][1:]))
        assert report[name]["baseline"] >= report[name]["reported"] or changed == 0
    assert list(run.answers("portfolio").columns) == ["ts", "diff", "account", "v", "low", "high"]
    assert list(run.answers("filtered").columns) == ["ts", "diff", "account", "v", "n", "low", "high"]
    assert list(run.answers("profit").columns) == ["ts", "diff", "kind", "v", "m", "v_low", "v_high", "m_low", "m_high"]


# ---------------------------------------------------------------- folded queries

FOLDED = "SELECT h.account, SUM(q.price * {k} + {c}) AS v FROM quotes q JOIN holdings h ON q.symbol = h.symbol AND h.n <= {n} WHERE h.kind = {kind} GROUP BY h.account"
FOLDED_GLOBAL = "SELECT SUM(q.price / {k}) AS v, COUNT(*) AS n FROM quotes q WHERE q.symbol <> '{symbol}'"


def test_queries_that_differ_in_literals_answer_each_for_itself(spark):
    """The first literals are zeros, which must not shape the others."""
    rng = random.Random(5)
    stream, tables = quotes(rng), {"holdings": holdings(rng)}
    db = connect(spark, tables)
    db.sql(QUOTES)
    queries = {}
    for i in range(24):
        k, c, n, kind = (
            (0, 0, 0, 1) if i == 0 else (rng.randint(0, 4), rng.randint(0, 3), rng.randint(0, 2), rng.randint(1, 3))
        )
        queries[f"g{i}"] = FOLDED.format(k=k, c=c, n=n, kind=kind), ["account"], {"v": str(5 * i)}
        queries[f"w{i}"] = FOLDED_GLOBAL.format(k=k, symbol=rng.choice(SYMBOLS)), [], {"v": str(i)}
    for name, (body, _, bounds) in queries.items():
        db.sql(f"CREATE CONTINUOUS QUERY {name} AS {body} {clause(bounds)}")
    assert len({id(p.choice.operator) for p in db.plans()}) == 2
    run = db.replay({"quotes": stream.table()})
    plain = PlainSql([stream], tables)
    truth = plain.answers(list({body for body, _, _ in queries.values()}))
    for name, (body, groups, bounds) in queries.items():
        check(run.answers(name), truth[body], plain.ticks, groups, bounds, name)


# ---------------------------------------------------------------- EMIT EVERY and FIDELITY


def test_emit_every_answers_for_the_last_tick_of_each_interval(spark):
    rng = random.Random(6)
    stream, tables = quotes(rng, ticks=40), {"holdings": holdings(rng)}
    body, _, bounds = BODIES["portfolio"]
    db = connect(spark, tables)
    db.sql(QUOTES)
    db.sql(f"CREATE CONTINUOUS QUERY coarse AS {body} {clause(bounds)} EMIT EVERY INTERVAL '7' SECONDS")
    db.sql("CREATE CONTINUOUS QUERY exact AS SELECT symbol, price FROM quotes EMIT EVERY INTERVAL '7' SECONDS")
    run = db.replay({"quotes": stream.table()})
    plain = PlainSql([stream], tables)
    last = {t // 7: i for i, t in enumerate(plain.ticks)}
    ticks = [plain.ticks[i] for i in last.values()]
    truth = [plain.answers([body])[body][i] for i in last.values()]
    check(run.answers("coarse"), truth, ticks, ["account"], bounds)
    assert set(run.answers("exact")["ts"]) <= set(ticks)
    rows = run.answers("exact").groupby(["symbol", "price"], dropna=False)["diff"].sum()
    now = {(r["symbol"], r["price"]) for r in stream.in_force(ticks[-1]).to_pylist() if r["price"] is not None}
    assert {k for k, n in rows[rows == 1].items() if k[1] == k[1]} == now


def test_fidelity_holds_in_every_window_and_saves_reports(spark):
    rng = random.Random(7)
    stream, tables = quotes(rng, ticks=60), {"holdings": holdings(rng)}
    body, _, _ = BODIES["portfolio"]
    db = connect(spark, tables)
    db.sql(QUOTES)
    shares = {"always": 1.0, "mostly": 0.9, "often": 0.5}
    for name, share in shares.items():
        db.sql(
            f"CREATE CONTINUOUS QUERY {name} AS {body} COHERENCY v WITHIN 5 FIDELITY {share:.0%} OVER INTERVAL '10' SECONDS"
        )
    run = db.replay({"quotes": stream.table()})
    plain = PlainSql([stream], tables)
    truth = plain.answers([body])[body]
    report = run.report()
    for name, share in shares.items():
        counted = {}
        for tick, reported, rows in zip(plain.ticks, in_force(run.answers(name), ["account"], plain.ticks), truth):
            wrong = misses(reported, rows, ["account"], {"v": "5"})
            assert not any(w.startswith(("missing", "extra")) for w in wrong.values())
            for group in reported:
                good, ticks = counted.get((group, tick // 10), (0, 0))
                counted[group, tick // 10] = good + (group not in wrong), ticks + 1
        assert all(good / ticks >= share for good, ticks in counted.values())
        assert report[name]["violations"] == sum(ticks - good for good, ticks in counted.values())
        assert report[name]["fidelity"] >= share
    assert report["always"]["reported"] > report["often"]["reported"]


# ---------------------------------------------------------------- on executors


def test_executors_answer_bit_for_bit_as_the_driver_does(spark):
    rng = random.Random(8)
    stream, tables = quotes(rng, ticks=30), {"holdings": holdings(rng), "sectors": SECTORS}
    frame = with_bad_rows(stream.table())
    names = ("portfolio", "several", "world", "nobody", "left_join", "zero")
    runs = []
    for driver_rows in (None, 0):
        db = connect(spark, tables, driver_rows=driver_rows)
        db.sql(QUOTES)
        for name in names:
            body, _, bounds = BODIES[name]
            db.sql(f"CREATE CONTINUOUS QUERY {name} AS {body} {clause(bounds)} FIDELITY 90% OVER INTERVAL '8' SECONDS")
        db.sql(
            "CREATE CONTINUOUS QUERY none AS SELECT symbol, SUM(price) AS v FROM quotes WHERE symbol = 'none' GROUP BY symbol COHERENCY v WITHIN 1"
        )
        for i in range(3):
            db.sql(
                f"CREATE CONTINUOUS QUERY f{i} AS SELECT AVG(price) AS v FROM quotes WHERE symbol <> '{SYMBOLS[i]}' COHERENCY v WITHIN 1 EMIT EVERY INTERVAL '3' SECONDS"
            )
        runs.append(db.replay({"quotes": frame}))
    driver, executors = runs
    assert (driver.where("world"), executors.where("world")) == ("driver", "executors")
    for name in (*names, "none", "f0", "f1", "f2"):
        pd.testing.assert_frame_equal(driver.answers(name), executors.answers(name), check_exact=True)
        assert driver.until(name) == executors.until(name)
    assert driver.report().to_json() == executors.report().to_json()
    assert driver.report()["portfolio"]["rejected"] > 0


def with_bad_rows(table):
    """Values that cannot be summed and rows without a key, spread through a trace."""
    rows = table.to_pylist()
    bad = [float("nan"), float("inf"), -float("inf"), 1e301]
    for i in range(0, len(rows), 9):
        rows.insert(i + i % 2, {**rows[i], "price": bad[i % 4]})  # before or after a good one
    for i in range(0, len(rows), 20):
        rows.insert(i, {**rows[i], "symbol": None})
    return pa.Table.from_pylist(rows, schema=table.schema)
