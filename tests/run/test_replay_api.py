"""What a connection does around replays: sinks, subscribers, tables that change, SHOW, EXPLAIN ANALYZE, reports."""

import json

import pandas as pd
import pyarrow as pa
import pytest

import deadband
from tests.run.replay_oracle import quick

__all__ = ["quick"]
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick")]

QUOTES = "CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at DELETE WHEN price < 0"
JOINED = "SELECT h.account, SUM(h.shares * q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account"
HOLDINGS = pd.DataFrame(
    {"account": pd.array([1, 1, None], dtype="Int32"), "symbol": ["a", "b", "b"], "shares": [1.0, 2.0, 3.0]}
)
DAYS = list(pd.date_range("2024-01-01", periods=4, freq="D"))


def quotes(*rows):
    return pd.DataFrame([(s, p, DAYS[d]) for s, p, d in rows], columns=["symbol", "price", "at"])


ROWS = quotes(("a", 10.0, 0), ("b", 10.0, 0), ("a", 12.0, 1), ("b", 40.0, 2), ("b", -1.0, 3), ("c", 1.0, 3))


@pytest.fixture
def db(spark):
    with deadband.connect(spark=spark) as connection:
        connection.register("holdings", HOLDINGS)
        connection.sql(QUOTES)
        yield connection


def told(answers, *columns):
    return [
        tuple(None if pd.isna(v) else v for v in row)
        for row in answers[["ts", "diff", *columns]].itertuples(index=False)
    ]


ANSWERS = [
    (DAYS[0], 1, 1, 30.0),
    (DAYS[0], 1, None, 30.0),
    (DAYS[2], 1, 1, 92.0),
    (DAYS[2], 1, None, 120.0),
    (DAYS[3], 1, 1, 12.0),
    (DAYS[3], -1, None, 120.0),
]


# ---------------------------------------------------------------- answers and report


def test_answers_carry_their_band(db):
    db.sql(
        f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5; CREATE CONTINUOUS QUERY r AS {JOINED} COHERENCY value WITHIN 10%"
    )
    run = db.replay({"quotes": ROWS})
    p = run.answers("P")
    assert told(p, "account", "value") == ANSWERS
    assert list(p["low"]) == [v - 5 for v in p["value"]] and list(p["high"]) == [v + 5 for v in p["value"]]
    r = run.answers("r")
    assert list(r["low"]) == [v - 0.1 * v for v in r["value"]] and list(r["high"]) == [v + 0.1 * v for v in r["value"]]
    assert p["account"].dtype == "Int32" and p["diff"].dtype == "int32" and p["ts"].dtype == "datetime64[ns]"
    with pytest.raises(deadband.DeadbandError, match="unknown continuous query q"):
        run.answers("q")


def test_the_report_counts_each_row_of_a_stream_once(db):
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5")
    db.sql("CREATE CONTINUOUS QUERY a AS SELECT SUM(price) AS v FROM quotes WHERE symbol = 'a' COHERENCY v WITHIN 5")
    bad = pd.DataFrame({"symbol": ["a", "c", None], "price": [float("inf")] * 3, "at": DAYS[:3]})
    run = db.replay({"quotes": pd.concat([ROWS, bad])})
    report = run.report()
    assert list(report) == ["p", "a"] and len(report) == 2
    figures = {"messages": 4, "reported": 4, "violations": 0, "fidelity": 1.0, "late": 0}
    # c is in no account; its row with no price that can be summed is none of p's business
    assert report["p"] == {"updates": 5, "initial": 2, **figures, "baseline": 5, "max_error": 2.0, "rejected": 2}
    assert report["A"] == {**report["p"], "updates": 2, "initial": 1, "messages": 0, "reported": 0, "baseline": 1}
    assert report.total["updates"] == 5 and report.total["rejected"] == 2
    assert report.total["initial"] == 3 and report.total["reported"] == 4 and report.total["baseline"] == 6
    db.sql("CREATE CONTINUOUS QUERY e AS SELECT symbol FROM quotes")
    report = db.replay({"quotes": pd.concat([ROWS, bad])}).report()
    assert report.total["updates"] == 8 and report["e"]["updates"] == 8 and report["e"]["rejected"] == 1
    told = json.loads(report.to_json())
    assert told["queries"]["p"] == report["p"] and told["total"] == report.total
    lines = report.text.split("\n")
    assert lines[0].split()[:3] == ["query", "updates", "initial"] and [line.split()[0] for line in lines[1:]] == [
        "p",
        "a",
        "e",
        "total",
    ]


def test_two_streams_and_queries_over_both(db):
    db.sql("CREATE STREAM trades (id INT, symbol STRING, n INT, at TIMESTAMP) KEY (id) TIMESTAMP BY at")
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5")
    db.sql("CREATE CONTINUOUS QUERY n AS SELECT SUM(n) AS n FROM trades COHERENCY n WITHIN 2")
    db.sql(
        "CREATE CONTINUOUS QUERY worth AS SELECT t.id, t.n * q.price AS worth FROM trades t JOIN quotes q ON t.symbol = q.symbol"
    )
    trades = pd.DataFrame(
        {"id": [1, 2, 1], "symbol": ["a", "b", "a"], "n": [50, 70, 51], "at": [DAYS[1], DAYS[1], DAYS[2]]}
    )
    run = db.replay({"quotes": ROWS, "TRADES": trades})
    assert told(run.answers("p"), "account", "value") == ANSWERS
    assert told(run.answers("n"), "n") == [(DAYS[1], 1, 120)]
    assert told(run.answers("worth"), "id", "worth") == [
        (DAYS[1], 1, 1, 600.0),
        (DAYS[1], 1, 2, 700.0),
        (DAYS[2], -1, 1, 600.0),
        (DAYS[2], -1, 2, 700.0),
        (DAYS[2], 1, 1, 612.0),
        (DAYS[2], 1, 2, 2800.0),
        (DAYS[3], -1, 2, 2800.0),
    ]
    report = run.report()
    assert (report["p"]["updates"], report["n"]["updates"], report["worth"]["updates"]) == (5, 3, 9)
    assert report.total["updates"] == 9
    assert (run.until("p"), run.until("n"), run.until("worth")) == (DAYS[3], DAYS[2], DAYS[3])


# ---------------------------------------------------------------- sinks and subscribers


def test_changes_go_into_files_with_their_types(db, spark, tmp_path):
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5 INTO parquet OPTIONS (path '{tmp_path}/p')")
    db.sql(
        f"CREATE CONTINUOUS QUERY c AS {JOINED} COHERENCY value WITHIN 5 INTO csv OPTIONS (path '{tmp_path}/c/', header 'true')"
    )
    db.sql(f"CREATE CONTINUOUS QUERY e AS SELECT symbol, price FROM quotes INTO parquet OPTIONS (path '{tmp_path}/e')")
    run = db.replay({"quotes": ROWS})
    written = spark.read.parquet(f"{tmp_path}/p/batch=0")
    kinds = [f.dataType.simpleString() for f in written.schema]
    assert written.columns == ["ts", "diff", "account", "value", "low", "high"]
    assert kinds == ["timestamp", "int", "int", "double", "double", "double"]
    assert sorted(told(written.toPandas(), "account", "value"), key=repr) == sorted(ANSWERS, key=repr)
    text = spark.read.option("header", "true").csv(f"{tmp_path}/c/batch=0")
    assert text.columns == written.columns and text.count() == 6
    exact = spark.read.parquet(f"{tmp_path}/e")
    assert exact.drop("batch").schema.simpleString() == "struct<ts:timestamp,diff:int,symbol:string,price:double>"
    assert exact.count() == len(run.answers("e"))
    db.replay({"quotes": ROWS.iloc[:0]})  # a second replay replaces the first, also when it has nothing to tell
    assert spark.read.schema(written.schema).parquet(f"{tmp_path}/p/batch=0").count() == 0
    assert spark.read.schema(exact.drop("batch").schema).parquet(f"{tmp_path}/e/batch=0").count() == 0


def test_a_sink_that_cannot_be_written(db, tmp_path):
    (tmp_path / "file").write_text("no folder")
    db.sql(
        f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5 INTO csv OPTIONS (path '{tmp_path}/file/in')"
    )
    with pytest.raises(deadband.DeadbandError, match="the changes of p cannot be written"):
        db.replay({"quotes": ROWS})


def test_a_query_that_cannot_be_prepared_is_not_registered(db, tmp_path):
    with pytest.raises(deadband.DeadbandError, match="Spark knows no format nosuch"):
        db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5 INTO nosuch OPTIONS (path '/tmp/x')")
    HOLDINGS.to_parquet(tmp_path / "t.parquet")
    db.sql(f"CREATE TEMPORARY VIEW lost USING parquet OPTIONS (path '{tmp_path}/t.parquet')")
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(deadband.DeadbandError, match="lost cannot be read"):
        db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED.replace('holdings', 'lost')} COHERENCY value WITHIN 5")
    assert db.queries == []


def test_subscribers_hear_changes_and_how_far_time_has_come(db):
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5")
    db.sql(
        "CREATE CONTINUOUS QUERY quiet AS SELECT symbol, SUM(price) AS v FROM quotes WHERE symbol = 'z' GROUP BY symbol COHERENCY v WITHIN 1"
    )
    heard, silent, progress = [], [], []
    db.subscribe("P", lambda ts, row, diff: heard.append((ts, diff, row)))
    db.subscribe("p", lambda *_: None, progress.append)
    db.subscribe("quiet", lambda *change: silent.append(change), progress.append)
    db.replay({"quotes": ROWS})
    assert [(ts, diff, row["value"]) for ts, diff, row in heard] == [(t, d, v) for t, d, _, v in ANSWERS]
    assert list(heard[0][2]) == ["account", "value", "low", "high"]
    assert silent == [] and progress == [DAYS[3], DAYS[3]]
    db.replay({"quotes": ROWS.iloc[:0]})
    assert len(heard) == len(ANSWERS) and len(progress) == 2
    with pytest.raises(deadband.DeadbandError, match="unknown continuous query nobody"):
        db.subscribe("nobody", print)


# ---------------------------------------------------------------- tables that change


def test_a_table_is_read_when_the_query_is_created_and_again_when_refreshed(db, tmp_path):
    path = str(tmp_path / "holdings.parquet")
    HOLDINGS.to_parquet(path)
    db.sql(f"CREATE TABLE stock USING parquet OPTIONS (path '{path}')")
    try:
        db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED.replace('holdings', 'stock')} COHERENCY value WITHIN 5")
        HOLDINGS.assign(shares=1.0).to_parquet(path)
        assert told(db.replay({"quotes": ROWS}).answers("p"), "account", "value") == ANSWERS
        db.sql("REFRESH TABLE stock")
        assert [v for *_, v in told(db.replay({"quotes": ROWS}).answers("p"), "value")][:2] == [20.0, 10.0]
    finally:
        db.sql("DROP TABLE stock")


def test_a_table_registered_again_is_read_again(db):
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5")
    assert told(db.replay({"quotes": ROWS}).answers("p"), "account", "value") == ANSWERS
    db.register("Holdings", HOLDINGS.assign(account=["x", "y", None]))
    answers = db.replay({"quotes": ROWS}).answers("p")
    assert [a for _, _, a, _ in told(answers, "account", "value")][:3] == ["x", "y", None]
    db.register("holdings", HOLDINGS.drop(columns="shares"))
    with pytest.raises(deadband.DeadbandError, match="Spark cannot run this query"):
        db.replay({"quotes": ROWS})
    with pytest.raises(deadband.DeadbandError, match="quotes is a stream"):
        db.register("quotes", ROWS)


# ---------------------------------------------------------------- SHOW and EXPLAIN


def test_show(db):
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5")
    streams = db.sql("SHOW STREAMS").collect()
    assert [tuple(r) for r in streams] == [("quotes", "symbol", "at", 0.0, "frames")]
    (query,) = db.sql("SHOW CONTINUOUS QUERIES").collect()
    assert tuple(query)[:3] == ("p", "LinearAggregate", "EmitOnDrift") and "<= 5" in query.promise
    settings = {r["setting"]: r["value"] for r in db.sql("SHOW SETTINGS").collect()}
    assert settings["filters"] == "adaptive"
    db.sql("DROP CONTINUOUS QUERY p")
    assert db.sql("SHOW CONTINUOUS QUERIES").count() == 0
    with pytest.raises(deadband.DeadbandError, match="there is no continuous query to run"):
        db.replay({"quotes": ROWS})


@pytest.mark.parametrize("form", ["parquet", "table"])
def test_explain_analyze_measures_on_the_streams_own_source(db, spark, tmp_path, form):
    """Measured beside estimated; what INTO names is not written."""
    if form == "parquet":
        ROWS.to_parquet(tmp_path / "rows.parquet", coerce_timestamps="us")
        options = f"(path '{tmp_path}/rows.parquet')"
    else:
        db.register("History of quotes", ROWS)
        options = "(name 'History of quotes')"
    db.sql(QUOTES.replace("quotes", "past") + f" USING {form} OPTIONS {options}")
    query = JOINED.replace("FROM quotes", "FROM past")
    plan = db.sql(
        f"EXPLAIN ANALYZE CREATE CONTINUOUS QUERY p AS {query} COHERENCY value WITHIN 5 INTO parquet OPTIONS (path '{tmp_path}/out')"
    )
    assert plan.measured["reported"] == 4 and plan.measured["updates"] == 5 and plan.measured["where"] == "driver"
    assert plan.json["plan"]["estimate"]["groups"] == 2
    assert "4" in plan.text and not (tmp_path / "out").exists()
    assert db.queries == []
    db.sql(f"CREATE CONTINUOUS QUERY p AS {query} COHERENCY value WITHIN 5")
    assert told(db.replay().answers("p"), "account", "value") == ANSWERS
    assert db.sql("EXPLAIN ANALYZE CONTINUOUS QUERY p").measured == plan.measured


def test_sources_that_cannot_be_read(db):
    db.sql(QUOTES.replace("quotes", "lost") + " USING parquet OPTIONS (path '/nowhere/at/all')")
    db.sql("CREATE CONTINUOUS QUERY p AS SELECT SUM(price) AS v FROM lost COHERENCY v WITHIN 5")
    with pytest.raises(deadband.DeadbandError, match="the source of lost cannot be read"):
        db.replay()
    db.sql("DROP CONTINUOUS QUERY p; DROP STREAM lost")
    db.sql(QUOTES.replace("quotes", "lost") + " USING table OPTIONS (path 'x')")
    db.sql("CREATE CONTINUOUS QUERY p AS SELECT SUM(price) AS v FROM lost COHERENCY v WITHIN 5")
    with pytest.raises(deadband.DeadbandError, match="the source of lost needs a name"):
        db.replay()


def test_errors_of_spark_while_a_query_runs_are_ours(db):
    db.sql("CREATE CONTINUOUS QUERY e AS SELECT symbol, 1 / (price - 10) AS x FROM quotes")
    with pytest.raises(deadband.DeadbandError, match="Spark cannot run this query"):
        db.replay({"quotes": ROWS})
    db.sql("DROP CONTINUOUS QUERY e")
    db.sql(
        f"CREATE CONTINUOUS QUERY w AS {JOINED.replace('GROUP', 'WHERE 1 / (h.shares - 1) > 0 GROUP')} COHERENCY value WITHIN 5"
    )
    with pytest.raises(deadband.DeadbandError, match="Spark cannot run this query"):
        db.replay({"quotes": ROWS})


def test_progress_is_told(db):
    seen = []
    db.sql(f"CREATE CONTINUOUS QUERY p AS {JOINED} COHERENCY value WITHIN 5")
    db.replay({"quotes": ROWS}, progress=lambda what, done, total: seen.append((what, done, total)))
    assert seen[-1] == ("done", 1, 1) and ("p", 0, 1) in seen


def test_source_order_in_a_table_with_many_chunks(db):
    """A key many times in one tick: the last row of the frame counts."""
    table = pa.concat_tables([pa.Table.from_pandas(quotes(("a", float(i), 0))) for i in range(50)])
    db.sql("CREATE CONTINUOUS QUERY a AS SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN 0")
    assert told(db.replay({"quotes": table}).answers("a"), "v") == [(DAYS[0], 1, 49.0)]
