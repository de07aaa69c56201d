"""ANALYZE STREAM: counts against plain Python, statistics saved and loaded, and what EXPLAIN and replays make of them."""

import json
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import deadband
from deadband.cli import main
from deadband.runtime.operators.filter_history import history_of
from tests.run.replay_oracle import quick

__all__ = ["quick"]
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick")]

STREAM = "CREATE STREAM q (site STRING, k INT, v DOUBLE, w INT, note STRING, at INT) KEY (site, k) TIMESTAMP BY at DELETE WHEN w < 0"
PRODUCTS = "CREATE CONTINUOUS QUERY products AS SELECT SUM(v * w) AS p FROM q PRECISION p WITHIN 5"
WALKS = "CREATE STREAM walks (k STRING, v DOUBLE, at INT) KEY (k) TIMESTAMP BY at USING table OPTIONS (name 'past')"
TOTAL = "CREATE OR REPLACE CONTINUOUS QUERY total AS SELECT SUM(v) AS s FROM walks PRECISION s WITHIN 200"


@pytest.fixture
def db(spark):
    with deadband.connect(spark=spark.newSession()) as connection:
        yield connection


def messy(seed, rows=1500):
    """Random rows: NULL, NaN and infinite values, deletions, several rows of a key in a tick, keys that come late."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 6, rows)
    at = rng.integers(0, 200, rows)
    v = rng.normal(size=rows).cumsum() * 10.0 ** (k - 2)
    frame = pd.DataFrame({"site": rng.choice(["a", "b"], rows), "k": k.astype(np.int32), "v": v, "w": 2, "note": "x"})
    frame["w"] = rng.choice([-1, 1, 2, 3], rows, p=[0.05, 0.3, 0.35, 0.3])
    frame["v"] = np.where(rng.random(rows) < 0.1, rng.choice([np.nan, np.inf, -np.inf, 1e305], rows), frame["v"])
    frame["at"] = at.astype(np.int32)
    frame = frame[(frame["k"] != 5) | (frame["at"] > 150)].astype(object)
    frame.loc[frame.sample(frac=0.05, random_state=seed).index, "v"] = None
    frame.loc[frame.sample(frac=0.02, random_state=seed + 1).index, "site"] = None  # refused: part of the key
    return frame.astype({"k": "int32", "at": "int32", "w": "Int32"}).astype({"v": "float64"})


def series(rows, key, value):
    """The numbers of one key in order of ticks, the last row of a tick only, as a plain loop finds them."""
    last = {}
    for row in rows:  # source order
        if (row["site"], row["k"]) == key:
            last[row["at"]] = row
    found = [value(last[t]) for t in sorted(last) if not last[t]["w"] < 0]
    return [x for x in found if x is not None and abs(x) < 1e300]


def sent(values, width):
    count, centre = 0, values[0]
    for x in values[1:]:
        if abs(x - centre) > 0.5 * width:
            count, centre = count + 1, x
    return count


@pytest.mark.parametrize(("driver_rows", "seed"), [(None, 1), (0, 2)])
def test_counts_are_those_of_plain_python(spark, driver_rows, seed):
    frame = messy(seed)
    with deadband.connect(spark=spark.newSession(), driver_rows=driver_rows) as db:
        db.register("past", frame)
        db.sql(f"{STREAM}; {PRODUCTS}")
        summary = db.sql("ANALYZE STREAM q FROM past").toPandas().set_index("feature")
        found = db.statistics("q").toPandas()
    rows = frame.dropna(subset=["site"]).to_dict("records")
    keys = {(r["site"], r["k"]) for r in rows}
    features = {
        "`v`": lambda r: r["v"],
        "`w`": lambda r: float(r["w"]),
        "`v` * `w`": lambda r: r["v"] * r["w"],
    }
    assert set(zip(found["site"], found["k"], found["feature"])) == {(*k, f) for k in keys for f in features}
    assert len(found) == len(keys) * len(features) and (summary["items"] == len(keys)).all()
    ticks = len({r["at"] for r in rows})
    assert (found["ticks"] == ticks).all()
    for row in found.to_dict("records"):
        values = series(rows, (row["site"], row["k"]), features[row["feature"]])
        moves = [abs(b - a) for a, b in pairwise(values) if a != b]
        assert (row["updates"], row["changes"]) == (len(values), len(moves))
        assert row["absolute"] == pytest.approx(math.fsum(moves))
        assert row["moment"] == pytest.approx(math.fsum(m * m for m in moves) / ticks)
        assert (np.diff(row["widths"]) > 0).all() and row["widths"][0] > 0
        assert [round(r * ticks) for r in row["rates"]] == [sent(values, w) for w in row["widths"]]
    assert summary.loc["`v`", "changes"] == found.loc[found["feature"] == "`v`", "changes"].sum()


def test_a_history_without_rows(db):
    db.register("past", messy(1)[:0])
    db.sql(STREAM)
    assert db.sql("ANALYZE STREAM q FROM past").toPandas().empty
    db.sql(PRODUCTS)
    assert "equal rates" in str(db.explain("products").assumed)
    assert len(db.replay({"q": messy(1)}).answers("products")) > 0


# ---------------------------------------------------------------- the statement


def test_history_may_be_a_query(db):
    db.register("past", messy(1))
    db.sql(STREAM.replace("q (", "Q ("))
    db.sql("ANALYZE STREAM q FROM (SELECT at, CAST(w AS STRING) AS W, v, k, site, note FROM past WHERE at < 100)")
    assert db.statistics("Q").agg({"ticks": "max"}).first()[0] <= 100
    assert [r["stream"] for r in db.sql("SHOW STATISTICS").collect()] == ["Q", "Q"]
    db.sql("DROP STREAM q")
    assert db.sql("SHOW STATISTICS").count() == 0


def test_errors(db):
    db.register("past", messy(1).drop(columns=["w"]))
    db.sql(STREAM)
    with pytest.raises(deadband.DeadbandError, match="the rows of q have no column w"):
        db.sql("ANALYZE STREAM q FROM past")
    with pytest.raises(deadband.DeadbandError, match="q has no history of its own") as caught:
        db.sql("ANALYZE STREAM q")
    assert "FROM a table" in caught.value.hint
    with pytest.raises(deadband.DeadbandError, match="unknown stream or table pst") as caught:
        db.sql("ANALYZE STREAM q FROM pst")
    with pytest.raises(deadband.DeadbandError, match="Spark cannot run this query"):
        db.sql("ANALYZE STREAM q FROM (SELECT nothing FROM past)")
    with pytest.raises(deadband.DeadbandError, match="q has not been analysed"):
        db.statistics("q")
    with pytest.raises(deadband.DeadbandError, match="unknown stream qq"):
        db.statistics("qq")


def test_key_columns_may_be_called_like_figures(db):
    db.register("past", pd.DataFrame({"feature": ["a", "a", "b"], "v": [1.0, 2.0, 3.0], "ticks": [1, 2, 3]}))
    db.sql("CREATE STREAM odd (feature STRING, v DOUBLE, ticks INT) KEY (feature) TIMESTAMP BY ticks")
    db.sql("ANALYZE STREAM odd FROM past")
    saved = db.statistics("odd").toPandas()
    assert sorted(saved["key_feature"]) == ["a", "b"] and set(saved["feature"]) == {"`v`"}
    db.load_statistics("odd", saved)


# ---------------------------------------------------------------- saved and loaded


def test_statistics_are_saved_and_loaded_as_a_table(db, tmp_path):
    db.register("past", messy(3))
    db.sql(f"{STREAM}; {PRODUCTS}; ANALYZE STREAM q FROM past")
    before = db.explain("products").json
    db.statistics("q").write.parquet(f"{tmp_path}/saved")
    with deadband.connect(spark=db.spark) as other:
        other.sql(f"{STREAM}; {PRODUCTS}")
        assert other.explain("products").json["plan"]["estimate"] == {}
        other.load_statistics("Q", other.spark.read.parquet(f"{tmp_path}/saved"))
        assert other.explain("products").json == before
        pd.testing.assert_frame_equal(other.statistics("q").toPandas(), db.statistics("q").toPandas())


def test_loading_checks(db):
    db.register("past", messy(1))
    db.sql(f"{STREAM}; ANALYZE STREAM q FROM past")
    saved = db.statistics("q").toPandas()

    def broken(**columns):
        return saved.assign(**columns)

    def lists(column, change):
        return {column: [change(np.array(x)) for x in saved[column]]}

    for wrong, message in [
        (saved.drop(columns=["rates"]), "the statistics of q have no column rates"),
        (broken(k="a"), "the statistics of q are not complete"),
        (broken(moment=None), "the statistics of q are not complete"),
        (broken(**lists("widths", lambda x: x[::-1])), "widths that do not ascend"),
        (broken(**lists("widths", lambda x: x[:5])), "curves of different lengths"),
        (broken(**lists("rates", lambda x: -1 - x)), "rates that are no rates"),
        (pd.concat([saved, saved[:1]]), "the statistics of q have a key twice for one feature"),
        (5, "must be a Spark, pandas or pyarrow frame"),
    ]:
        with pytest.raises(deadband.DeadbandError, match=message):
            db.load_statistics("q", wrong)
    pd.testing.assert_frame_equal(db.statistics("q").toPandas(), saved)
    db.load_statistics("q", saved[:0])
    assert db.statistics("q").count() == 0


# ---------------------------------------------------------------- what it is good for


def walks(seed, ticks=3000, items=20, spread=100.0):
    """Random walks whose steps are very different."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(ticks, items)) * np.geomspace(0.1, 0.1 * spread, items)
    names = [f"i{i:02}" for i in range(items)]
    return pd.DataFrame(
        {
            "k": np.tile(names, ticks),
            "v": steps.cumsum(axis=0).reshape(-1),
            "at": np.repeat(np.arange(ticks), items).astype(np.int32),
        }
    )


def sent_by(db, method, **frames):
    db.sql(f"SET filters = '{method}'; {TOTAL}")
    figures = db.replay(frames or None).report()["total"]
    return figures["messages"] + figures["control"]


def test_replay_starts_where_history_says(db):
    """Learnt on one half, counted on the other: fewer messages than with equal widths, and than without history."""
    db.register("past", walks(1))
    db.sql(WALKS)
    later = walks(2)
    equal, learning = sent_by(db, "uniform", walks=later), sent_by(db, "adaptive", walks=later)
    db.sql("ANALYZE STREAM walks")
    knowing = sent_by(db, "adaptive", walks=later)
    assert knowing < 0.7 * equal and knowing < learning


@pytest.mark.parametrize("method", ["adaptive", "uniform", "none"])
def test_estimates_are_near_what_is_measured(db, method):
    db.register("past", walks(3))
    db.sql(f"{WALKS}; ANALYZE STREAM walks; SET filters = '{method}'; {TOTAL}")
    plan = db.sql("EXPLAIN ANALYZE CONTINUOUS QUERY total")
    estimate, measured = plan.json["plan"]["estimate"], plan.measured
    assert estimate["messages"] == pytest.approx(measured["messages"], rel=0.2)
    assert estimate["baseline"] == measured["baseline"] and estimate["updates"] == measured["updates"]
    assert estimate["messages"] + estimate["control"] == pytest.approx(
        measured["messages"] + measured["control"], rel=0.2
    )
    assert "measured" in plan.text and "the analysed history" in plan.text


def test_explain_looks_at_the_streams_own_source(db):
    db.register("past", walks(4, ticks=400))
    db.register("sides", pd.DataFrame({"k": ["i00", "i01", "i19", "i19", "i18"], "side": ["a", "a", "a", "b", "c"]}))
    db.sql(WALKS)
    query = "SELECT s.side, AVG(v) AS mean, MAX(v * 2) AS most FROM walks JOIN sides s ON s.k = walks.k GROUP BY s.side"
    plan = db.explain(f"{query} PRECISION mean WITHIN 10, most WITHIN 50%").json
    assert plan["assumed"] == ["items go on moving as in the stream's own source"]
    detail, estimate = plan["plan"]["detail"], plan["plan"]["estimate"]
    assert estimate["items"] == 4 and estimate["groups"] == 3 and estimate["updates"] == 1600
    assert estimate["messages"] <= estimate["baseline"]
    assert {t.split(" ")[0] for t in detail["budgets"]} == {"a", "b", "c"}
    assert any(t.startswith("a mean: ") and t.endswith(" of 10") for t in detail["budgets"])
    assert len(detail["widths"]) == 8 and detail["fixed"] == "1 of 4 items keep one width"
    coarse = db.explain("SELECT SUM(v) AS s FROM walks PRECISION s WITHIN 5 EMIT EVERY INTERVAL '10' SECONDS").json
    assert coarse["plan"]["estimate"]["ticks"] == 40 and coarse["plan"]["estimate"]["baseline"] == 39 * 20


def test_reference_says_that_it_is_estimated_like_adaptive(db):
    db.register("past", walks(4, ticks=100))
    db.sql(f"{WALKS}; SET filters = 'reference'; {TOTAL}")
    assert "the reference method settles where the adaptive one does" in db.explain("total").assumed


def test_nothing_to_estimate_from(db):
    db.sql("CREATE STREAM walks (k STRING, v DOUBLE, at INT) KEY (k) TIMESTAMP BY at")
    db.sql(TOTAL)
    assert db.explain("total").json["plan"]["estimate"] == {}
    db.register("past", walks(4, ticks=100))
    db.sql("ANALYZE STREAM walks FROM past")
    assert db.explain("total").json["plan"]["estimate"]["ticks"] == 100
    squares = "SELECT SUM(v * v) AS s FROM walks PRECISION s WITHIN 5"  # not looked at by ANALYZE
    assert db.explain(squares).json["plan"]["estimate"] == {}


def test_history_of_keys_and_features_that_were_not_analysed(db):
    book = SimpleNamespace(  # what history_of reads of one
        features=deadband.compile(
            f"{STREAM}; CREATE CONTINUOUS QUERY x AS SELECT SUM(v) AS a, SUM(w * w) AS b FROM q PRECISION a WITHIN 1, b WITHIN 1"
        )[0].tree.features,
        number={("a", 1): 0, ("zz", 9): 1, ("b", 2): 2},
    )

    db.register("past", messy(5))
    db.sql(f"{STREAM}; ANALYZE STREAM q FROM past")
    statistics = db._context.statistics["q"]
    curves = history_of(book, statistics)
    table = db.statistics("q").toPandas().set_index(["feature", "site", "k"])
    one, two = table.loc[("`v`", "a", 1)], table.loc[("`v`", "b", 2)]
    assert curves.width.shape == (6, 12)
    assert list(curves.rate[0]) == list(one["rates"]) and list(curves.width[4]) == list(two["widths"])
    between = (np.array(one["widths"]) + np.array(two["widths"])) / 2
    for other in (1, 2, 3, 5):  # the unknown key, and the feature that nobody analysed
        assert np.allclose(curves.width[other], between)
    book.number = {**book.number, ("a", 2): 3}  # a book that has grown
    assert history_of(book, statistics).width.shape == (8, 12)
    book.number = {("zz", 9): 0}
    assert history_of(book, statistics) is None and history_of(book, None) is None


def test_a_file_that_analyses_and_runs(spark, tmp_path):
    walks(6, ticks=300).to_parquet(tmp_path / "past.parquet")
    source = f"USING parquet OPTIONS (path '{tmp_path}/past.parquet')"
    stream = WALKS.replace("USING table OPTIONS (name 'past')", source)
    counted = []
    for text in (
        f"{stream}; {TOTAL};",
        f"{stream}; ANALYZE STREAM walks; {TOTAL};",
        f"{stream}; {TOTAL}; ANALYZE STREAM walks;",
    ):
        (tmp_path / "file.sql").write_text(text)
        done = CliRunner().invoke(
            main, ["run", str(tmp_path / "file.sql")], obj=spark.newSession(), catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        assert ("changes_per_tick" in done.output) == ("ANALYZE" in text)
        done = CliRunner().invoke(main, ["run", str(tmp_path / "file.sql"), "--json"], obj=spark.newSession())
        counted.append(json.loads(done.output)["report"]["queries"]["total"]["messages"])
    assert counted[1] == counted[2] < counted[0]


def test_explain_of_a_file_that_analyses(spark, tmp_path):
    """The stream has no source: what the table tells is all there is."""
    walks(6, ticks=300).to_parquet(tmp_path / "past.parquet")
    stream = WALKS.replace("USING table OPTIONS (name 'past')", "")
    table = f"CREATE TEMPORARY VIEW past USING parquet OPTIONS (path '{tmp_path}/past.parquet')"
    (tmp_path / "file.sql").write_text(f"{stream}; {table}; {TOTAL}; ANALYZE STREAM walks FROM past;")
    command = ["explain", str(tmp_path / "file.sql"), "--format", "json"]
    done = CliRunner().invoke(main, command, obj=spark.newSession(), catch_exceptions=False)
    assert json.loads(done.output)[0]["plan"]["estimate"]["ticks"] == 300


@pytest.mark.parametrize("analysed", [False, True])
def test_explain_with_costs_rates_and_sites(db, analysed):
    rows = walks(7, ticks=200, items=6)
    rows["site"], rows["price"], rows["pace"] = rows["k"].str[-1].astype(int) % 2, 2.0, 0.5
    db.register("past", rows)
    stream = "CREATE STREAM walks (k STRING, v DOUBLE, site INT, price DOUBLE, pace DOUBLE, at INT) KEY (k) TIMESTAMP BY at LATENESS INTERVAL '1' SECOND SOURCE BY (site)"
    db.sql(f"{stream} USING table OPTIONS (name 'past', message_cost 'price', change_rate 'pace'); {TOTAL}")
    if analysed:
        db.sql("ANALYZE STREAM walks")
    plan = db.explain("total").json["plan"]
    assert plan["estimate"]["updates"] == 1200 and 0 < plan["estimate"]["messages"] < plan["estimate"]["baseline"]
    ((used, allowed),) = [b.removeprefix("total: ").split(" of ") for b in plan["detail"]["budgets"]]
    assert float(used) == pytest.approx(float(allowed)) == pytest.approx(200 - 6 * 2 * 1 * 0.5)  # less the padding
