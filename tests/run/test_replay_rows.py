"""What rows may look like: their frames, types, names and mistakes, and what becomes of each in answers and report."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deadband
from deadband.runtime.sources.frames import from_arrow
from tests.run.replay_oracle import plain, quick

__all__ = ["quick"]
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick")]

QUOTES = "CREATE STREAM quotes (symbol STRING, price DOUBLE, at INT) KEY (symbol) TIMESTAMP BY at"
TOTAL = "CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS v, COUNT(*) AS n FROM quotes COHERENCY v WITHIN 0"


@pytest.fixture
def db(spark):
    with deadband.connect(spark=spark) as connection:
        yield connection


def told(answers, *columns):
    """Rows as tuples: ts, diff and these columns."""
    return [tuple(plain(v) for v in row) for row in answers[["ts", "diff", *columns]].itertuples(index=False)]


def quotes(*rows):
    return pd.DataFrame(rows, columns=["symbol", "price", "at"])


# ---------------------------------------------------------------- event time

TIMES = {
    "TIMESTAMP": (
        [dt.datetime(2024, 3, 10, 1, 59, 59, 999999), dt.datetime(2024, 3, 10, 3, 30), dt.datetime(2024, 11, 3, 12)],
        pa.timestamp("us"),
    ),
    "TIMESTAMP_NTZ": (
        [dt.datetime(1960, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 3, 10, 2, 30, 1)],
        pa.timestamp("us"),
    ),
    "DATE": ([dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1)], pa.date32()),
    "TINYINT": ([-128, 0, 127], pa.int8()),
    "INT": ([-(2**31), 0, 2**31 - 1], pa.int32()),
    "BIGINT": ([-(2**63) + 1, 2**53, 2**53 + 1], pa.int64()),
    "FLOAT": ([-0.5, 0.1, 1e30], pa.float32()),
    "DOUBLE": ([-0.5, 0.1, 1e300], pa.float64()),
    "DECIMAL(18, 6)": (
        [Decimal("-0.000001"), Decimal("1700000000.123456"), Decimal("1700000000.123457")],
        pa.decimal128(18, 6),
    ),
    "DECIMAL(30, 2)": ([Decimal("-0.01"), Decimal("0.10"), Decimal("170.25")], pa.decimal128(30, 2)),
}


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_event_time_keeps_its_type_and_value(spark, zone):
    """Bounded and exact answers alike, in any session zone, also for wall-clock times that the zone skips."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        db, frames = deadband.connect(spark=spark), {}
        kinds = {k: v for k, v in TIMES.items() if zone != "+05:30" or "TIMESTAMP" in k}
        for i, (kind, (times, arrow)) in enumerate(kinds.items()):
            db.sql(f"CREATE STREAM s{i} (k STRING, x DOUBLE, t {kind}) KEY (k) TIMESTAMP BY t")
            db.sql(
                f"CREATE CONTINUOUS QUERY bounded{i} AS SELECT k, SUM(x) AS v FROM s{i} GROUP BY k COHERENCY v WITHIN 0"
            )
            if kind in ("TIMESTAMP_NTZ", "DATE", "DECIMAL(18, 6)"):
                db.sql(f"CREATE CONTINUOUS QUERY exact{i} AS SELECT k, x FROM s{i}")
            frames[f"s{i}"] = pa.table({"k": ["a"] * 3, "x": [1.0, 2.0, 3.0], "t": pa.array(times, arrow)})
        run = db.replay(frames)
        for i, (kind, (times, arrow)) in enumerate(kinds.items()):
            answers = run.answers(f"bounded{i}")
            want = pd.Series(times) if "TIMESTAMP" in kind else pa.array(times, arrow).to_pandas(date_as_object=True)
            assert list(answers["ts"]) == list(want), kind
            assert answers["ts"].dtype == want.dtype, kind
            assert list(answers["v"]) == [1.0, 2.0, 3.0]
            if f"exact{i}" in db.queries:
                exact = run.answers(f"exact{i}")
                assert list(exact[exact["diff"] == 1]["ts"]) == list(want), kind
                assert list(exact["ts"]) == [want[0], want[1], want[1], want[2], want[2]]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_windows_of_event_time(db):
    """EMIT EVERY on timestamps, dates and numbers: tumbling from the epoch, one unit of a number a second."""
    kinds = {
        "ts": ("TIMESTAMP", "1 MINUTE", [dt.datetime(2024, 1, 1, 0, m, s) for m, s in ((0, 0), (0, 59), (1, 0), (3, 1), (3, 59))], [1, 2, 4]),
        "day": ("DATE", "7 DAYS", [dt.date(1970, 1, d) for d in (1, 7, 8, 15, 21)], [1, 2, 4]),
        "number": ("BIGINT", "10 SECONDS", [-1, 0, 9, 10, 25], [0, 2, 3, 4]),
        "real": ("DOUBLE", "10 SECONDS", [0.5, 9.999, 10.0, 19.0, 40.0], [1, 3, 4]),
        "cents": ("DECIMAL(10, 2)", "1 SECOND", [Decimal(x) for x in ("0.01", "0.99", "1.00", "1.01", "2.50")], [1, 3, 4]),
    }  # fmt: skip
    frames = {}
    for name, (kind, every, times, _) in kinds.items():
        amount, unit = every.split()
        db.sql(f"CREATE STREAM {name}_s (k INT, x DOUBLE, t {kind}) KEY (k) TIMESTAMP BY t")
        db.sql(
            f"CREATE CONTINUOUS QUERY {name}_q AS SELECT SUM(x) AS v FROM {name}_s COHERENCY v WITHIN 0 EMIT EVERY INTERVAL '{amount}' {unit}"
        )
        frames[f"{name}_s"] = pd.DataFrame({"k": 1, "x": np.arange(5.0), "t": times})
    run = db.replay(frames)
    for name, (_, _, times, last) in kinds.items():
        assert told(run.answers(f"{name}_q"), "v") == [(times[i], 1, float(i)) for i in last], name


def test_streams_of_different_numbers_are_read_together(db):
    for name, kind in (("a", "INT"), ("b", "DOUBLE"), ("c", "DECIMAL(9, 2)")):
        db.sql(f"CREATE STREAM {name} (k INT, t {kind}) KEY (k) TIMESTAMP BY t")
    frames = {n: pd.DataFrame({"k": [1, 2], "t": t}) for n, t in (("a", [1, 4]), ("b", [2.5, 3.5]), ("c", [2.5, 3.5]))}
    db.sql("CREATE CONTINUOUS QUERY ab AS SELECT a.k FROM a JOIN b ON a.k = b.k")
    assert told(db.replay(frames).answers("ab"), "k") == [(2.5, 1, 1), (4.0, 1, 2)]
    db.sql("CREATE CONTINUOUS QUERY ac AS SELECT a.k FROM a JOIN c ON a.k = c.k")
    with pytest.raises(deadband.DeadbandError, match="a and c tell time differently"):
        db.replay(frames)


# ---------------------------------------------------------------- keys and groups

KEYS = {
    "STRING": (["b", "", "é"], pa.string()),
    "BIGINT": ([2**60 + 1, -1, 2**60], pa.int64()),
    "DOUBLE": ([0.1, -0.0, 1e300], pa.float64()),
    "DECIMAL(20, 3)": ([Decimal("0.100"), Decimal("-7.000"), Decimal("12345678901234567.891")], pa.decimal128(20, 3)),
    "BOOLEAN": ([True, False, True], pa.bool_()),
    "DATE": ([dt.date(2024, 2, 29), dt.date(1900, 1, 1), dt.date(2024, 3, 1)], pa.date32()),
    "TIMESTAMP": (
        [dt.datetime(2024, 3, 10, 1, 30), dt.datetime(1999, 1, 1), dt.datetime(2024, 7, 1, 2, 3, 4, 5)],
        pa.timestamp("us"),
    ),
    "TIMESTAMP_NTZ": (
        [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1999, 1, 1), dt.datetime(2024, 7, 1)],
        pa.timestamp("us"),
    ),
    "BINARY": ([b"a\x00", b"", b"a"], pa.binary()),
}


@pytest.mark.parametrize("driver_rows", [None, 0])
def test_keys_and_groups_of_any_type(spark, driver_rows):
    """Grouped by the key, and by a static column of that type, NULL groups included, joined on the key."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        db, frames = deadband.connect(spark=spark, driver_rows=driver_rows), {}
        kinds = {
            k: v for k, v in KEYS.items() if driver_rows is None or k in ("DOUBLE", "TIMESTAMP_NTZ", "DECIMAL(20, 3)")
        }
        for i, (kind, (values, arrow)) in enumerate(kinds.items()):
            a, b, c = values
            static = pa.table({"k": pa.array(values, arrow), "g": pa.array([b, b, None], arrow), "w": [1.0, 2.0, 3.0]})
            db.register(f"t{i}", from_arrow(spark, static) if kind == "TIMESTAMP_NTZ" else static)
            db.sql(f"CREATE STREAM s{i} (k {kind}, x INT, at INT) KEY (k) TIMESTAMP BY at")
            db.sql(
                f"CREATE CONTINUOUS QUERY by_key{i} AS SELECT k, SUM(x) AS v FROM s{i} GROUP BY k COHERENCY v WITHIN 0"
            )
            db.sql(
                f"CREATE CONTINUOUS QUERY by_g{i} AS SELECT t.g, SUM(x * t.w) AS v FROM s{i} s JOIN t{i} t ON s.k = t.k GROUP BY t.g COHERENCY v WITHIN 0"
            )
            table = pa.table({"k": pa.array([a, b, c, a], arrow), "x": [1, 10, 100, 5], "at": [1, 1, 2, 3]})
            frames[f"s{i}"] = table
        run = db.replay(frames)
        for i, (kind, (values, arrow)) in enumerate(kinds.items()):
            a, b, c = values
            same = a == c
            by_key = run.answers(f"by_key{i}")
            want = {a: 5, b: 10, c: 100} if not same else {a: 5, b: 10}
            last = by_key.groupby("k")["v"].last()
            assert {plain(k): v for k, v in last.items()} == want, kind
            in_order = pa.array(sorted(want), arrow).to_pandas(date_as_object=True)
            assert by_key["k"].dtype == in_order.dtype or "TIMESTAMP" in kind, kind
            by_g = {plain(k): v for k, v in zip(run.answers(f"by_g{i}")["g"], run.answers(f"by_g{i}")["v"])}
            if not same:
                assert by_g == {b: 5 + 20, None: 300}, kind
            assert run.report()[f"by_key{i}"]["rejected"] == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_minus_zero_is_zero_and_nan_is_no_key(db):
    db.sql("CREATE STREAM s (k DOUBLE, x DOUBLE, at INT) KEY (k) TIMESTAMP BY at")
    db.sql("CREATE CONTINUOUS QUERY q AS SELECT k, SUM(x) AS v, COUNT(*) AS n FROM s GROUP BY k COHERENCY v WITHIN 0")
    run = db.replay({"s": pa.table({"k": [0.0, -0.0, float("nan")], "x": [1.0, 2.0, 4.0], "at": [1, 2, 3]})})
    assert told(run.answers("q"), "k", "v", "n") == [(1, 1, 0.0, 1.0, 1), (2, 1, 0.0, 2.0, 1)]
    assert run.report()["q"]["rejected"] == 1


def test_composite_keys(db):
    db.sql("CREATE STREAM s (a STRING, b INT, x DOUBLE, at INT) KEY (a, b) TIMESTAMP BY at")
    db.sql("CREATE CONTINUOUS QUERY q AS SELECT a, SUM(x) AS v, COUNT(*) AS n FROM s GROUP BY a COHERENCY v WITHIN 0")
    rows = [("p", 1, 1.0, 1), ("p", 2, 2.0, 1), ("q", 1, 4.0, 1), ("p", 1, 8.0, 2), ("p", None, 9.0, 2)]
    run = db.replay({"s": pd.DataFrame(rows, columns=["a", "b", "x", "at"])})
    assert told(run.answers("q"), "a", "v", "n") == [(1, 1, "p", 3.0, 2), (1, 1, "q", 4.0, 1), (2, 1, "p", 10.0, 2)]
    assert run.report()["q"] | {} == {
        "updates": 4, "initial": 2, "messages": 1, "reported": 1, "baseline": 1, "violations": 0, "fidelity": 1.0, "max_error": 0.0,
        "late": 0, "rejected": 1,
    }  # fmt: skip


def test_whole_group_columns_stay_whole_beside_null(db):
    db.register("t", pd.DataFrame({"k": ["a", "b"], "g": pd.array([2**60 + 1, None], dtype="Int64")}))
    db.sql(QUOTES)
    db.sql(
        "CREATE CONTINUOUS QUERY q AS SELECT t.g, SUM(price) AS v FROM quotes JOIN t ON symbol = t.k GROUP BY t.g COHERENCY v WITHIN 0"
    )
    answers = db.replay({"quotes": quotes(("a", 1.0, 1), ("b", 2.0, 1))}).answers("q")
    assert told(answers, "g", "v") == [(1, 1, 2**60 + 1, 1.0), (1, 1, None, 2.0)]


# ---------------------------------------------------------------- types of answers


def test_answers_have_the_types_of_spark(db):
    db.sql("CREATE STREAM s (k STRING, i INT, b BIGINT, d DECIMAL(12, 2), f FLOAT, at INT) KEY (k) TIMESTAMP BY at")
    db.sql(
        "CREATE CONTINUOUS QUERY q AS SELECT SUM(i) AS i, SUM(b) AS b, SUM(d) AS d, AVG(d) AS m, SUM(f) AS f, AVG(i) AS a, COUNT(*) AS n "
        "FROM s COHERENCY i WITHIN 0"
    )
    cents = [Decimal("0.10"), Decimal("0.20"), Decimal("9999999999.99")]
    table = pa.table(
        {
            "k": ["a", "b", "c"], "i": [1, 2, None], "b": [2**52, 2**52, None], "d": pa.array(cents, pa.decimal128(12, 2)),
            "f": pa.array([0.5, 0.25, None], pa.float32()), "at": [1, 2, 3],
        }
    )  # fmt: skip
    answers = db.replay({"s": table}).answers("q")
    assert told(answers, "i", "b", "d") == [
        (1, 1, 1, 2**52, Decimal("0.10")),
        (2, 1, 3, 2**53, Decimal("0.30")),
        (3, 1, 3, 2**53, Decimal("10000000000.29")),
    ]
    assert list(answers["m"]) == [Decimal("0.100000"), Decimal("0.150000"), Decimal("3333333333.430000")]
    assert list(answers["a"]) == [1.0, 1.5, 1.5] and list(answers["n"]) == [1, 2, 3]
    assert [str(answers[c].dtype) for c in ("i", "b", "n", "f", "a")] == [
        "int64",
        "int64",
        "int64",
        "float64",
        "float64",
    ]


def test_whole_numbers_that_doubles_cannot_keep_are_an_error(db):
    db.sql("CREATE STREAM s (k STRING, b BIGINT, at INT) KEY (k) TIMESTAMP BY at")
    for bound in ("0", "1000", "1%"):
        db.sql(
            f"CREATE CONTINUOUS QUERY within_{bound.rstrip('%')} AS SELECT SUM(b) AS v FROM s COHERENCY v WITHIN {bound}"
        )
    run = db.replay({"s": pd.DataFrame({"k": ["a", "b"], "b": [2**60, 2**60], "at": [1, 2]})})
    assert told(run.answers("within_1000"), "v") == told(run.answers("within_1"), "v") == [(1, 1, 2**60), (2, 1, 2**61)]
    with pytest.raises(deadband.DeadbandError, match="v is beyond 2\\^53"):
        run.answers("within_0")
    run = db.replay({"s": pd.DataFrame({"k": ["a", "b"], "b": [2**62, 2**62], "at": [1, 2]})})
    with pytest.raises(deadband.DeadbandError, match="v leaves its type, BIGINT"):
        run.answers("within_1")


# ---------------------------------------------------------------- rows that are refused


def test_bad_rows_are_refused_and_counted(db):
    db.sql(QUOTES)
    db.sql(TOTAL)
    run = db.replay(
        {
            "quotes": pa.table(
                {
                    "symbol": ["a", None, "a", "a", "a", "a", "b", "b", "a"],
                    "price": ["1", "1", "x", "NaN", "Infinity", "-1e301", None, "2", "3"],
                    "at": [1, 1, 2, 3, 4, 5, 6, 7, None],
                }
            )
        }
    )
    # every event time of a row that was read is a tick, also where its value cannot be summed
    assert told(run.answers("total"), "v", "n") == [(1, 1, 1.0, 1), (6, 1, 1.0, 2), (7, 1, 3.0, 2)]
    assert run.report()["total"]["rejected"] == 6
    assert run.report()["total"]["updates"] == 3
    assert run.report().total["rejected"] == 6 and run.report().total["updates"] == 3


def test_a_refused_row_hides_no_good_one(db):
    """The last good row of a key in a tick counts, in source order, wherever refused ones stand."""
    db.sql(QUOTES)
    db.sql(TOTAL)
    nan = float("nan")
    rows = [("a", 1.0, 1), ("a", 2.0, 1), ("a", nan, 1), ("a", nan, 2), ("a", 5.0, 2), ("a", nan, 2), ("b", nan, 3)]
    table = pa.table({"symbol": [r[0] for r in rows], "price": [r[1] for r in rows], "at": [r[2] for r in rows]})
    run = db.replay({"quotes": table})
    assert told(run.answers("total"), "v", "n") == [(1, 1, 2.0, 1), (2, 1, 5.0, 1)]
    assert run.report()["total"]["rejected"] == 4


def test_event_times_that_are_none(db):
    db.sql("CREATE STREAM s (k STRING, x DOUBLE, t DOUBLE) KEY (k) TIMESTAMP BY t")
    db.sql("CREATE CONTINUOUS QUERY q AS SELECT SUM(x) AS v FROM s COHERENCY v WITHIN 0")
    times = [float("nan"), None, float("inf"), -float("inf"), 1.0]
    run = db.replay({"s": pa.table({"k": ["a"] * 5, "x": [1.0, 2.0, 3.0, 4.0, 5.0], "t": times})})
    assert told(run.answers("q"), "v") == [(1.0, 1, 5.0)]
    assert run.report()["q"]["rejected"] == 4


def test_casts_are_checked(db):
    """A value that the declared type cannot hold as it is refuses its row; one that it can hold does not."""
    db.sql("CREATE STREAM s (k STRING, i INT, d DECIMAL(5, 2), day DATE, b BOOLEAN, at INT) KEY (k) TIMESTAMP BY at")
    db.sql(
        "CREATE CONTINUOUS QUERY q AS SELECT k, SUM(i) AS i, SUM(d) AS d, COUNT(day) AS n, COUNT(b) AS b FROM s GROUP BY k COHERENCY i WITHIN 0"
    )
    good = ("whole", 1.0, 0.1, dt.datetime(2024, 1, 1), "true")
    rows = [
        good,
        ("nulls", None, None, None, None),
        ("int_cut", 1.5, *good[2:]),
        ("int_large", 3e9, *good[2:]),
        ("decimal_cut", 1.0, 0.125, *good[3:]),
        ("decimal_large", 1.0, 1000.0, *good[3:]),
        ("day_cut", *good[1:3], dt.datetime(2024, 1, 1, 12), "true"),
        ("no_bool", *good[1:4], "maybe"),
    ]
    frame = pd.DataFrame(rows, columns=["k", "i", "d", "day", "b"]).assign(at=1)
    run = db.replay({"s": frame})
    assert told(run.answers("q"), "k", "i", "d", "n", "b") == [
        (1, 1, "nulls", None, None, 0, 0),
        (1, 1, "whole", 1, Decimal("0.10"), 1, 1),
    ]
    assert run.report()["q"]["rejected"] == 6


def test_division_by_zero_is_null(db):
    """Of values, of static columns, of both, and of the values of one row: one row must not stop a stream."""
    db.register("t", pd.DataFrame({"k": ["a", "b"], "z": [0.0, 2.0], "n": [0, 3]}))
    db.sql("CREATE STREAM s (k STRING, x DOUBLE, n INT, text STRING, at INT) KEY (k) TIMESTAMP BY at")
    db.sql(
        "CREATE CONTINUOUS QUERY q AS SELECT s.k, SUM(x / z) AS a, SUM(x * (1 / z)) AS b, SUM(t.n / z) AS c, SUM(x / s.n) AS d, SUM(z / s.n) AS e, "
        "SUM(s.n % 0) AS f, SUM(s.n DIV (s.n - 1)) AS g, SUM(CAST(text AS INT)) AS h FROM s JOIN t ON s.k = t.k GROUP BY s.k COHERENCY a WITHIN 0"
    )
    frame = pd.DataFrame({"k": ["a", "b"], "x": [4.0, 6.0], "n": [0, 1], "text": ["one", "1"], "at": [1, 2]})
    answers = db.replay({"s": frame}).answers("q")
    assert told(answers, *"abcdefgh") == [
        (1, 1, None, None, None, None, None, None, 0, None),
        (2, 1, 3.0, 3.0, 1.5, 6.0, 2.0, None, None, 1),
    ]


def test_nothing_to_tell(db):
    """No rows, no relevant row, one row: defined, and a global aggregate answers from the first tick on."""
    db.sql(QUOTES)
    db.sql(TOTAL)
    db.sql(
        "CREATE CONTINUOUS QUERY some AS SELECT symbol, SUM(price) AS v FROM quotes WHERE symbol = 'z' GROUP BY symbol COHERENCY v WITHIN 0"
    )
    db.sql(
        "CREATE CONTINUOUS QUERY z AS SELECT SUM(price) AS v, COUNT(*) AS n FROM quotes WHERE symbol = 'z' COHERENCY v WITHIN 0"
    )
    empty = db.replay({"quotes": quotes()})
    for name in ("total", "some", "z"):
        assert len(empty.answers(name)) == 0
        assert empty.report()[name]["updates"] == 0 and empty.until(name) is None
    one = db.replay({"quotes": quotes(("a", 1.0, 7))})
    assert told(one.answers("total"), "v", "n") == [(7, 1, 1.0, 1)]
    assert told(one.answers("z"), "v", "n") == [(7, 1, None, 0)]
    assert len(one.answers("some")) == 0 and one.until("some") == 7
    assert one.report()["z"]["updates"] == 0 and one.report().total["updates"] == 1


# ---------------------------------------------------------------- frames


def test_frames_of_pandas_pyarrow_and_spark_are_alike(spark, db):
    """Columns in any order and case, extra ones ignored, categories, unsigned and small types, chunks, any row order."""
    db.sql("CREATE STREAM quotes (symbol STRING, price DOUBLE, n INT, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at")
    db.sql(
        "CREATE CONTINUOUS QUERY q AS SELECT symbol, SUM(price * n) AS v FROM quotes GROUP BY symbol COHERENCY v WITHIN 0"
    )
    frame = pd.DataFrame(
        {
            "Extra": [[1]] * 4,
            "AT": pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-03", "2024-01-01"]),
            "Symbol": pd.Categorical(["a", "a", "b", "b"]),
            "PRICE": np.array([1.5, 2.5, 3.5, 4.5], np.float32),
            "n": np.array([1, 2, 3, 4], np.uint32),
        }
    )
    table = pa.Table.from_pandas(frame)
    empty = table.slice(0, 0)
    chunks = pa.concat_tables([empty, table.slice(0, 1), empty, table.slice(1)])
    batch = table.combine_chunks().to_batches()[0]
    spark_frame = spark.createDataFrame(frame.astype({"Symbol": str, "n": int}))
    seen = [db.replay({"Quotes": f}).answers("q") for f in (frame, table, chunks, batch, spark_frame)]
    stamps = [pd.Timestamp(2024, 1, d) for d in (1, 1, 2, 3)]
    assert told(seen[0], "symbol", "v") == list(zip(stamps, [1] * 4, "abab", [5.0, 18.0, 1.5, 10.5]))
    for other in seen[1:]:
        pd.testing.assert_frame_equal(seen[0], other)


def test_a_column_of_mixed_types_is_judged_row_by_row(db):
    db.sql(QUOTES)
    db.sql(TOTAL)
    frame = quotes(("a", 1, 1), ("a", "2.5", 2), ("a", "many", 3), ("a", None, 4), ("a", 2**70, 5))
    run = db.replay({"quotes": frame})
    assert told(run.answers("total"), "v") == [(1, 1, 1.0), (2, 1, 2.5), (4, 1, None), (5, 1, float(2**70))]
    assert run.report()["total"]["rejected"] == 1


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ({"quotes": quotes().drop(columns="price")}, "the rows of quotes have no column price"),
        ({"quotes": quotes().rename(columns={"price": "prize"})}, "no column price"),
        ({"quotes": quotes().assign(PRICE=1)}, "column price twice"),
        ({"qoutes": quotes()}, "unknown stream qoutes"),
        ({"quotes": "stream"}, "has no end"),
        ({"quotes": [1, 2]}, "must be a Spark, pandas or pyarrow frame, not list"),
        ({"quotes": None}, "stream quotes has no rows"),
        ({}, "stream quotes has no rows"),
        (None, "stream quotes has no rows"),
        ({"quotes": pd.DataFrame([["a", 1.0, 1, 1]], columns=["symbol", "price", "at", "at"])}, "the column at twice"),
        ({"quotes": pd.DataFrame({"symbol": ["a"], "price": [[1.0]], "at": [1]})}, "do not fit its columns"),
        (
            {"quotes": pd.DataFrame({"symbol": ["a"], "price": [1.0], "at": [dt.date(2024, 1, 1)]})},
            "do not fit its columns",
        ),
    ],
)
def test_mistakes_with_frames_are_said(db, frames, message):
    db.sql(QUOTES)
    db.sql(TOTAL)
    if message == "has no end":
        frames = {"quotes": db.spark.readStream.format("rate").load()}
    with pytest.raises(deadband.DeadbandError) as caught:
        db.replay(frames)
    assert message in str(caught.value)


def test_a_frame_that_fails_while_it_is_read(db, spark):
    db.sql(QUOTES)
    db.sql(TOTAL)
    broken = spark.range(3).selectExpr("string(id) AS symbol", "1 / (id - id) AS price", "id AS at")
    with pytest.raises(deadband.DeadbandError, match="the source of quotes cannot be read"):
        db.replay({"quotes": broken})


# ---------------------------------------------------------------- names

NAMES = ["f0", "g0", "o0", "item", "tick", "rows", "value", "key", "query", "block", "count", "row", "usable"]


@pytest.mark.parametrize("driver_rows", [None, 0])
def test_columns_may_have_any_name(spark, driver_rows):
    """Names that are used inside, names with spaces and backticks, upper case, unicode, words of the language."""
    db = deadband.connect(spark=spark, driver_rows=driver_rows)
    stream = ", ".join(f"{n} DOUBLE" for n in NAMES[1:])
    db.sql(
        f"CREATE STREAM Keys (f0 STRING, `my ``key``` INT, {stream}, `Größe in m` DOUBLE, WITHIN DOUBLE, At INT) KEY (F0, `my ``key```) TIMESTAMP BY at"
    )
    static = pd.DataFrame(
        {"f0": ["a", "b"], "Item": ["x", None], "g 0": [1, 2], "tick": [2.0, 3.0], "rows": [0.5, 0.25]}
    )
    db.register("Static Table", static)
    sums = ", ".join(f"SUM(k.{n}) AS {n}" for n in NAMES[1:])
    db.sql(
        f"CREATE CONTINUOUS QUERY Wide AS SELECT s.Item AS `The Item`, s.`g 0`, k.`MY ``KEY```, {sums}, SUM(`größe IN M` * s.tick * s.rows) AS `v v`, SUM(k.within) AS Within "
        "FROM `static table` s JOIN keys AS k ON k.f0 = s.f0 GROUP BY s.item, s.`g 0`, k.`my ``key``` COHERENCY `v v` WITHIN 0"
    )
    row = {n: float(i) for i, n in enumerate(NAMES)}
    frame = pd.DataFrame([{**row, "f0": f, "my `key`": 7, "Größe in m": 4.0, "within": 9.0, "at": 1} for f in "ab"])
    answers = db.replay({"keys": frame}).answers("wide")
    assert list(answers.columns) == [
        "ts",
        "diff",
        "The Item",
        "g 0",
        "MY `KEY`",
        *NAMES[1:],
        "v v",
        "Within",
        "low",
        "high",
    ]
    assert told(answers, "The Item", "g 0", "MY `KEY`", "v v", "Within") == [
        (1, 1, "x", 1, 7, 4.0, 9.0),
        (1, 1, None, 2, 7, 3.0, 9.0),
    ]
    for i, name in enumerate(NAMES[1:], 1):
        assert list(answers[name]) == [float(i)] * 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT symbol AS ts, SUM(price) AS v FROM quotes GROUP BY symbol COHERENCY v WITHIN 1",
        "SELECT SUM(price) AS low FROM quotes COHERENCY low WITHIN 1",
        "SELECT SUM(price) AS v, COUNT(*) AS n, COUNT(price) AS V_High FROM quotes COHERENCY v WITHIN 1, n WITHIN 1",
        "SELECT symbol, price AS DIFF FROM quotes",
    ],
)
def test_names_of_the_columns_that_answers_add_are_taken(query):
    with pytest.raises(deadband.DeadbandError, match="a column cannot be called"):
        deadband.compile(f"{QUOTES}; CREATE CONTINUOUS QUERY q AS {query}")


def test_sixty_four_values_per_key_and_not_more(db):
    columns = [f"c{i}" for i in range(65)]
    db.sql(f"CREATE STREAM s (k STRING, {', '.join(f'{c} DOUBLE' for c in columns)}, at INT) KEY (k) TIMESTAMP BY at")
    sums = [f"SUM({c}) AS {c}" for c in columns]
    db.sql(f"CREATE CONTINUOUS QUERY q AS SELECT {', '.join(sums[:64])} FROM s COHERENCY c0 WITHIN 0")
    with pytest.raises(deadband.DeadbandError, match="65 different values per key; at most 64 fit"):
        db.sql(f"CREATE CONTINUOUS QUERY more AS SELECT {', '.join(sums)} FROM s COHERENCY c0 WITHIN 0")
    row = {c: float(i) for i, c in enumerate(columns)}
    run = db.replay({"s": pd.DataFrame([{"k": "a", **row, "at": 1}, {"k": "a", **row, "c63": None, "at": 2}])})
    assert told(run.answers("q"), "c0", "c1", "c63") == [(1, 1, 0.0, 1.0, 63.0), (2, 1, 0.0, 1.0, None)]
