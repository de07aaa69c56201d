"""SparkExact against an independent oracle: DuckDB runs the plain body over the rows in force, tick by tick."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import pytest
import sqlglot
from sqlglot.optimizer.qualify import qualify

from deadband.compiler.errors import DeadbandError
from deadband.compiler.lower.as_of import as_of
from deadband.runtime.operators import spark_exact

pytestmark = pytest.mark.spark

NAN = float("nan")
STREAMS = {
    "quotes": {"symbol": "string", "price": "double", "qty": "int", "tags": "array<string>"},
    "fills": {"id": "int", "symbol": "string", "size": "double"},
}
STATIC = {
    "holdings": {"account": "string", "symbol": "string", "shares": "double"},
    "limits": {"symbol": "string", "low": "double"},
    "__params": {"__query": "int", "p0": "double"},
}
KEYS = {"quotes": ["symbol"], "fills": []}
TABLES = {
    "holdings": [
        ("ann", "A", 2.0),
        ("ann", "B", 1.0),
        ("bob", "A", 3.0),
        ("bob", "Z", 1.0),
        ("cy", None, 1.0),
        ("cy", "C", 0.0),
    ],
    "limits": [("A", 1.0), ("B", 3.0), ("B", 3.0), ("Y", 0.0)],
    "__params": [(1, 0.0), (2, 3.0), (3, 99.0)],
}

JOIN = "SELECT q.symbol, f.id, q.price - f.size AS d FROM quotes q JOIN fills f ON q.symbol = f.symbol"
UNION = (
    "SELECT symbol, price FROM quotes UNION ALL SELECT symbol, size FROM fills UNION ALL SELECT symbol, low FROM limits"
)
COUNT = "SELECT COUNT(*) AS n FROM quotes"
HAVING = "SELECT COUNT(*) AS n FROM quotes HAVING COUNT(*) <> 2"
OUTER_JOIN = "SELECT q.symbol, f.id FROM quotes q LEFT JOIN fills f ON q.symbol = f.symbol"
LIMIT = "SELECT symbol, price FROM quotes ORDER BY price DESC, symbol LIMIT 2"

VERSIONS = [
    JOIN,
    UNION,
    "SELECT q.symbol, q.price FROM quotes q",
    "SELECT symbol s, price * 2 AS twice, price FROM quotes WHERE price > 1 ORDER BY price",
    "SELECT price FROM quotes",
    "SELECT id FROM fills WHERE size > 2",
    "SELECT q.price, q.price FROM quotes AS q WHERE q.symbol <> 'B' OR q.price IS NULL",
    "SELECT h.account, h.shares * q.price AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol WHERE h.shares > 0",
    "SELECT q.symbol, l.low FROM quotes q LEFT JOIN limits l ON q.symbol = l.symbol AND q.price > l.low",
    "SELECT q.symbol, l.low FROM limits l RIGHT JOIN quotes q ON q.symbol = l.symbol",
    "SELECT a.symbol AS x, b.symbol AS y FROM quotes a JOIN quotes b ON a.price < b.price",
    "SELECT q.symbol, f.id, l.low FROM fills f, quotes q, limits l WHERE f.symbol = q.symbol AND q.symbol = l.symbol",
    "WITH big AS (SELECT symbol, price FROM quotes WHERE price > 2), b AS (SELECT symbol AS s FROM big) SELECT b.s, big.price FROM b JOIN big ON b.s = big.symbol",
    "SELECT t.s, f.size FROM (SELECT symbol AS s, price FROM quotes WHERE qty < 3) t JOIN fills f ON t.s = f.symbol ORDER BY 1",
    "SELECT u.symbol, h.account FROM (SELECT symbol FROM quotes UNION ALL (SELECT symbol FROM fills)) u JOIN holdings h USING (symbol)",
    "SELECT q.symbol FROM quotes q LEFT ANTI JOIN limits l ON q.symbol = l.symbol",
    "SELECT q.symbol FROM quotes q WHERE EXISTS (SELECT 1 FROM limits l WHERE l.symbol = q.symbol AND l.low < q.price)",
    "SELECT q.symbol, q.price - (SELECT MAX(low) FROM limits) AS over FROM quotes q WHERE q.symbol IN (SELECT symbol FROM holdings)",
    "SELECT q.symbol, m.n FROM quotes q JOIN (SELECT symbol, COUNT(*) AS n FROM holdings GROUP BY symbol ORDER BY 2 LIMIT 9) m ON m.symbol = q.symbol",
    "SELECT account FROM holdings",
    "WITH quotes AS (SELECT symbol, price AS p FROM quotes WHERE qty > 1) SELECT symbol, p FROM quotes",
    "WITH fills AS (SELECT symbol FROM limits) SELECT q.price FROM quotes q JOIN fills f ON f.symbol = q.symbol",
]
TICKS = [
    COUNT,
    HAVING,
    OUTER_JOIN,
    "SELECT COUNT(*) AS n, SUM(price) s, AVG(qty) a, MIN(symbol) m, MAX(price) x, COUNT(price) c FROM quotes WHERE qty > 1",
    "SELECT COUNT(DISTINCT symbol) AS n, COUNT(*) FILTER (WHERE price > 2) AS big FROM quotes",
    "SELECT SUM(h.shares * q.price) - (SELECT MAX(low) FROM limits) AS v FROM quotes q JOIN holdings h ON q.symbol = h.symbol",
    "SELECT h.account, SUM(h.shares * q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account",
    "SELECT h.account AS a, COUNT(q.price) n, COUNT(*) m FROM holdings h LEFT JOIN quotes q ON q.symbol = h.symbol GROUP BY 1",
    "SELECT h.account, q.price FROM quotes q RIGHT JOIN holdings h ON q.symbol = h.symbol AND q.qty > 1",
    "SELECT q.symbol, f.id, l.low FROM quotes q FULL JOIN fills f ON q.symbol = f.symbol FULL JOIN limits l ON l.symbol = f.symbol",
    "SELECT l.symbol FROM limits l JOIN holdings h ON h.symbol = l.symbol LEFT ANTI JOIN quotes q ON q.symbol = l.symbol",
    "SELECT l.symbol FROM limits l LEFT SEMI JOIN quotes q ON q.symbol = l.symbol AND q.price >= l.low",
    "SELECT f.id FROM fills f LEFT SEMI JOIN quotes q ON q.symbol = f.symbol",
    "SELECT DISTINCT qty, price FROM quotes",
    "SELECT qty, COUNT(*) AS n FROM quotes GROUP BY qty HAVING COUNT(*) > 1 AND MAX(price) > 1",
    "SELECT qty + 1 AS k, SUM(price) s FROM quotes GROUP BY ALL",
    "SELECT COUNT(*) AS n FROM quotes GROUP BY ALL",
    "SELECT symbol, RANK() OVER (ORDER BY price) AS r, COUNT(*) OVER () AS n, SUM(qty) OVER w AS s FROM quotes WINDOW w AS (PARTITION BY qty)",
    "SELECT qty, SUM(COUNT(*)) OVER (ORDER BY qty) AS running FROM quotes GROUP BY qty",
    "SELECT SUM(COUNT(*)) OVER () AS n FROM quotes",
    "SELECT symbol FROM quotes QUALIFY ROW_NUMBER() OVER (PARTITION BY qty ORDER BY price, symbol) = 1",
    "WITH m AS (SELECT AVG(price) AS a, COUNT(*) n FROM quotes) SELECT q.symbol, m.n FROM quotes q JOIN m ON q.price > m.a",
    "SELECT m.n, l.symbol FROM limits l JOIN (SELECT COUNT(*) AS n FROM fills WHERE size > 2) m ON m.n < l.low",
    "SELECT t.n FROM (SELECT COUNT(*) AS n FROM fills) t WHERE t.n <> 2",
    "SELECT t.n, COUNT(*) AS of FROM (SELECT symbol, COUNT(*) AS n FROM fills GROUP BY symbol) t GROUP BY t.n",
    "SELECT symbol FROM quotes UNION SELECT symbol FROM limits",
    "SELECT symbol FROM limits EXCEPT SELECT symbol FROM quotes",
    "SELECT symbol FROM fills INTERSECT ALL SELECT symbol FROM limits",
    "SELECT symbol, 1 AS k FROM limits UNION ALL SELECT MAX(symbol), COUNT(*) FROM quotes",
    "SELECT a.symbol, COUNT(*) AS n FROM fills a JOIN fills b ON a.symbol = b.symbol GROUP BY a.symbol",
    "SELECT q.qty, f.size, COUNT(*) AS n FROM quotes q CROSS JOIN fills f GROUP BY q.qty, f.size",
    "WITH s AS (SELECT DISTINCT symbol FROM fills) SELECT s.symbol, q.price FROM s LEFT JOIN quotes q ON q.symbol = s.symbol",
]
JOBS = [
    LIMIT,
    "SELECT symbol FROM quotes WHERE price > (SELECT AVG(price) FROM quotes)",
    "SELECT COUNT(*) AS n, MAX(id) AS i FROM fills WHERE symbol IN (SELECT symbol FROM quotes)",
    "SELECT a.symbol FROM quotes a WHERE NOT EXISTS (SELECT 1 FROM quotes b WHERE b.qty = a.qty AND b.price > a.price)",
    "SELECT q.symbol, f.id FROM (quotes q JOIN fills f ON q.symbol = f.symbol)",
    "WITH t AS (SELECT symbol FROM fills ORDER BY id, symbol LIMIT 2) SELECT symbol, COUNT(*) AS n FROM t GROUP BY symbol",
]
# beyond what DuckDB says alike; the oracle is one job a tick
SPARK_ONLY = [
    "SELECT q.symbol, t.tag, l.low FROM quotes q JOIN limits l ON l.symbol = q.symbol LATERAL VIEW OUTER EXPLODE(q.tags) t AS tag",
    "SELECT tags, NAMED_STRUCT('a', price, 'b', tags) AS s, MAP('k', price) AS m, NULL AS nothing FROM quotes",
    "SELECT q.symbol, l.n FROM quotes q, LATERAL (SELECT COUNT(*) AS n FROM holdings h WHERE h.symbol = q.symbol) l",
    "SELECT COUNT(*) AS n, MAX(t.tag) AS m FROM quotes q LATERAL VIEW EXPLODE(q.tags) t AS tag",
    "SELECT qty, symbol, SUM(price) AS s, GROUPING_ID() AS g FROM quotes GROUP BY ROLLUP (qty, symbol)",
    "SELECT qty, symbol, COUNT(*) AS n FROM quotes GROUP BY GROUPING SETS ((qty), (symbol), ())",
    "SELECT ANY(price > 2) a, SOME(price > 1) b, TRY_SUM(qty) d, MEAN(qty) e, SORT_ARRAY(COLLECT_LIST(qty)) f FROM quotes",
    "SELECT LISTAGG(symbol, ',') WITHIN GROUP (ORDER BY symbol) AS l, MAX_BY(symbol, STRUCT(price, symbol)) AS m FROM quotes",
]
# ? stands for the parameter
FOLDED = [
    ("versions", "SELECT __p.__query AS __query, q.symbol FROM quotes q WHERE q.price > ?"),
    (
        "ticks",
        "SELECT __p.__query AS __query, q.qty, COUNT(*) AS n FROM quotes q WHERE q.price > ? GROUP BY __p.__query, q.qty",
    ),
    (
        "ticks",
        "SELECT __p.__query AS __query, COUNT(*) AS n, SUM(q.price) AS s, MAX(?) AS p FROM quotes q WHERE q.price > ? GROUP BY __p.__query",
    ),
    (
        "ticks",
        "SELECT __p.__query AS __query, COUNT(*) AS n FROM quotes q WHERE q.price > ? GROUP BY __p.__query HAVING COUNT(*) <> 1",
    ),
    (
        "jobs",
        "SELECT __p.__query AS __query, COUNT(*) AS n FROM quotes q WHERE q.price > ? AND q.symbol IN (SELECT symbol FROM fills) GROUP BY __p.__query",
    ),
]


# ---------------------------------------------------------------- traces and the oracle


def trace(seed, ticks, quiet=()):
    """Rows (stream, tick, deleted, values) in source order: few keys, so that ties, repeats and deletes abound."""
    rng = random.Random(seed)
    rows = []
    for tick in range(ticks):
        for _ in range(rng.choice([0, 1, 2, 4])):
            price = rng.choice([0.0, 1.0, 2.0, 3.0, 3.0, 5.0, NAN, None])
            tags = rng.choice([None, [], ["x"], ["x", "y"]])
            values = (rng.choice("ABCD"), price, rng.choice([1, 1, 2, 3, None]), tags)
            rows.append(("quotes", tick, rng.random() < 0.2, values))
        for _ in range(rng.choice([0, 0, 1, 2])):
            values = (rng.randrange(3), rng.choice(["A", "B", "Y", None]), rng.choice([1.0, 2.0, 3.0, NAN]))
            rows.append(("fills", tick, False, values))
    return [row for row in rows if row[0] not in quiet]


def in_force(rows, tick):
    """The streams' rows after a tick."""
    quotes = {}
    for stream, at, deleted, values in rows:
        if stream == "quotes" and at <= tick:
            quotes.pop(values[0], None)
            if not deleted:
                quotes[values[0]] = values
    fills = [values for stream, at, _, values in rows if stream == "fills" and at <= tick]
    return {"quotes": list(quotes.values()), "fills": fills}


class Oracle:
    """Answers of plain SQL at every tick of a trace."""

    def __init__(self, rows, ticks):
        self.ticks = ticks
        self.states = []
        for tick in range(ticks):
            db = duckdb.connect()
            for name, columns in {**STREAMS, **STATIC}.items():
                types = ", ".join(f'"{c}" {t.replace("array<string>", "varchar[]")}' for c, t in columns.items())
                db.execute(f"CREATE TABLE {name} ({types})")
            for name, values in {**TABLES, **in_force(rows, tick)}.items():
                if values:
                    db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(values[0]))})", values)
            self.states.append(db)

    def answers(self, sql):
        text = sqlglot.transpile(sql, read="spark", write="duckdb")[0]
        return [Counter(map(comparable, db.execute(text).fetchall())) for db in self.states]


def frames_of(spark, rows):
    frames = {}
    for stream, columns in STREAMS.items():
        schema = ", ".join(f"{c} {t}" for c, t in columns.items()) + ", __tick bigint, __seq bigint, __deleted boolean"
        own = [(*v, t, i, d) for i, (s, t, d, v) in enumerate(rows) if s == stream]
        frames[stream] = spark.createDataFrame(own, schema).cache()
    return frames


def rows_of(changes):
    return [comparable(row) for row in changes.collect()]


def comparable(value):
    """A value of nested rows, lists and maps that compares as SQL groups it."""
    if isinstance(value, dict):
        return tuple((key, comparable(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    return "NaN" if value != value else value


def plan_of(sql, **options):
    tree = sqlglot.parse_one(sql, dialect="spark")
    body = qualify(
        tree, schema={**STREAMS, **STATIC}, dialect="spark", quote_identifiers=False, validate_qualify_columns=False
    )
    before = body.copy()
    plan = as_of(body, {name: bool(key) for name, key in KEYS.items()}, **options)
    assert body == before
    return plan


def play(rows, ticks):
    """The rows in force at every tick, from changes that must come in order and never withdraw what is not there."""
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    assert all(0 <= row[0] < ticks and row[1] in (-1, 1) for row in rows)
    answers, answer = [], Counter()
    for tick in range(ticks):
        gone, come = (Counter(row[2:] for row in rows if row[:2] == (tick, diff)) for diff in (-1, 1))
        assert not gone & come
        assert gone <= answer
        answer = answer - gone + come
        answers.append(answer)
    return answers


class World:
    """A trace, as Spark and as the oracle see it."""

    def __init__(self, spark, seed, ticks, quiet=()):
        self.spark, self.ticks = spark, ticks
        self.rows = trace(seed, ticks, quiet)
        self.frames = frames_of(spark, self.rows)
        self.oracle = Oracle(self.rows, ticks)
        self.ahead = {}

    def changes(self, plan, **options):
        return spark_exact.changes(self.spark, plan, self.frames, KEYS, self.ticks, **options)

    def found(self, sql, form=None):
        """The changes of a body, or of its plan made to run in another form."""
        if (sql, form) not in self.ahead:
            self.ahead[sql, form] = ThreadPoolExecutor(1).submit(self.find, sql, form)
        return self.ahead[sql, form].result()

    def find(self, sql, form=None):
        plan = plan_of(sql)
        return rows_of(self.changes(replace(plan, form=form, query=plan.body) if form else plan))


@pytest.fixture(scope="module", autouse=True)
def static_tables(spark):
    for name, columns in STATIC.items():
        schema = ", ".join(f"{c} {t}" for c, t in columns.items())
        spark.createDataFrame(TABLES[name], schema).cache().createOrReplaceTempView(name)
    yield
    for name in STATIC:
        spark.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def pool():
    """Many queries at once: mostly Spark's driver is busy, with one of them."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture(scope="module")
def world(spark, pool):
    world = World(spark, seed=7, ticks=8)
    world.ahead = {(sql, None): pool.submit(world.find, sql) for sql in [*VERSIONS, *TICKS]}
    return world


@pytest.fixture(scope="module")
def small_world(spark, pool):
    world = World(spark, seed=5, ticks=4)
    each = [(sql, None) for sql in [*JOBS, *SPARK_ONLY]] + [(sql, "jobs") for sql in SPARK_ONLY]
    world.ahead = {key: pool.submit(world.find, *key) for key in each}
    return world


# ---------------------------------------------------------------- the answers are those of plain SQL


@pytest.mark.parametrize("sql", VERSIONS)
def test_linear_bodies_follow_versions(world, sql):
    check(world, sql, "versions")


@pytest.mark.parametrize("sql", TICKS)
def test_other_bodies_run_over_all_ticks_at_once(world, sql):
    check(world, sql, "ticks")


@pytest.mark.parametrize("sql", JOBS)
def test_what_is_left_runs_a_tick_at_a_time(small_world, sql):
    check(small_world, sql, "jobs")


def check(world, sql, form):
    plan = plan_of(sql)
    assert plan.form == form, plan.reason
    assert play(world.found(sql), world.ticks) == world.oracle.answers(sql)


@pytest.mark.parametrize(("ticks", "quiet"), [(0, STREAMS), (3, STREAMS), (1, ()), (4, ("quotes",)), (4, ("fills",))])
def test_streams_may_be_short_or_empty(spark, ticks, quiet):
    world = World(spark, seed=3, ticks=ticks, quiet=quiet)
    for sql in (JOIN, COUNT, OUTER_JOIN, LIMIT):
        assert play(world.found(sql), ticks) == world.oracle.answers(sql), sql


@pytest.mark.parametrize("sql", SPARK_ONLY)
def test_what_only_spark_can_say_is_as_one_job_a_tick_has_it(small_world, sql):
    plan = plan_of(sql)
    assert plan.form != "jobs", plan.reason
    assert small_world.found(sql) == small_world.found(sql, "jobs")


@pytest.mark.parametrize(("form", "sql"), FOLDED)
def test_a_folded_group_answers_as_its_queries_do(small_world, form, sql):
    plan = plan_of(sql.replace("FROM ", "FROM __params AS __p CROSS JOIN ", 1).replace("?", "__p.p0"), per_query=True)
    is_global = "GROUP BY __p.__query" in sql and "GROUP BY __p.__query," not in sql
    assert (plan.form, plan.complete) == (form, is_global)
    want = [Counter() for _ in range(small_world.ticks)]
    for query, p0 in TABLES["__params"]:
        alone = sql.replace("GROUP BY __p.__query, ", "GROUP BY ").replace("GROUP BY __p.__query", "")
        alone = alone.replace("__p.__query", str(query)).replace("?", str(p0))
        for total, answer in zip(want, small_world.oracle.answers(alone)):
            total.update(answer)
    assert play(rows_of(small_world.changes(plan)), small_world.ticks) == want


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("sql", [JOIN, UNION, COUNT, HAVING, OUTER_JOIN, LIMIT])
def test_two_batches_change_as_one(spark, small_world, sql):
    plan, cut = plan_of(sql), 2
    first = frames_of(spark, [row for row in small_world.rows if row[1] < cut])
    second = frames_of(spark, [(s, t - cut, d, v) for s, t, d, v in small_world.rows if t >= cut])
    second = {name: frame.union(spark_exact.carry(first, KEYS)[name]) for name, frame in second.items()}
    one = spark_exact.changes(spark, plan, first, KEYS, cut)
    two = spark_exact.changes(spark, plan, second, KEYS, small_world.ticks - cut, baseline=True)
    assert rows_of(one) + [(t + cut, *row) for t, *row in rows_of(two)] == small_world.found(sql)


def test_carried_rows_are_those_in_force(world):
    carried = spark_exact.carry(world.frames, KEYS)
    for name, rows in in_force(world.rows, world.ticks).items():
        found = carried[name].collect()
        assert Counter(comparable(row[:-3]) for row in found) == Counter(map(comparable, rows))
        assert {(row["__tick"], row["__deleted"]) for row in found} == {(-1, False)}
        assert carried[name].dtypes == world.frames[name].dtypes


@pytest.mark.parametrize("sql", [JOIN, COUNT, LIMIT])
def test_ticks_without_rows_are_skipped(spark, small_world, sql):
    sparse = frames_of(spark, [(s, t * 1000, d, v) for s, t, d, v in small_world.rows])
    plan, seen = plan_of(sql), []
    found = spark_exact.changes(spark, plan, sparse, KEYS, 10_000, progress=lambda *done: seen.append(done))
    assert rows_of(found) == [(t * 1000, *row) for t, *row in small_world.found(sql)]
    assert seen == ([(1, 4), (2, 4), (3, 4), (4, 4)] if plan.form == "jobs" else [])


def test_answers_of_many_rows_are_compared_in_chunks(small_world, monkeypatch):
    monkeypatch.setattr(spark_exact, "CHUNK_ROWS", 1)
    assert rows_of(small_world.changes(plan_of(LIMIT))) == small_world.found(LIMIT)


# ---------------------------------------------------------------- manners


@pytest.mark.parametrize("sql", [JOIN, COUNT, LIMIT])
def test_nothing_is_left_behind_and_nothing_computed_twice(spark, small_world, sql):
    before = {table.name for table in spark.catalog.listTables()}
    found = small_world.changes(plan_of(sql))
    assert {table.name for table in spark.catalog.listTables()} == before
    assert found.columns[:2] == ["__tick", "diff"]
    assert [kind for _, kind in found.dtypes[:2]] == ["bigint", "int"]
    assert rows_of(found) == rows_of(found) == small_world.found(sql)


def test_columns_may_have_any_name(spark):
    rows = [("x", 1, 0, 0, False), ("x", 2, 1, 1, False), ("y", 3, 1, 2, False)]
    frame = spark.createDataFrame(rows, "`a.b c` string, `select` int, __tick bigint, __seq bigint, __deleted boolean")
    body = sqlglot.parse_one("SELECT o.`a.b c` AS `k.k`, o.`select` AS k FROM odd AS o", dialect="spark")
    plan = as_of(body, {"odd": True})
    for form in (plan, replace(plan, form="jobs", query=plan.body)):
        found = spark_exact.changes(spark, form, {"odd": frame}, {"odd": ["a.b c"]}, 2)
        assert found.columns == ["__tick", "diff", "k.k", "k"]
        assert rows_of(found) == [(0, 1, "x", 1), (1, -1, "x", 1), (1, 1, "x", 2), (1, 1, "y", 3)]
    carried = spark_exact.carry({"odd": frame}, {"odd": ["a.b c"]})["odd"]
    assert sorted(row[:3] for row in carried.collect()) == [("x", 2, -1), ("y", 3, -1)]


def test_static_tables_may_be_read_from_snapshots(spark, world):
    sql = (
        "WITH limits AS (SELECT symbol FROM holdings) SELECT q.symbol, holdings.account "
        "FROM quotes q JOIN holdings ON q.symbol = holdings.symbol JOIN limits ON q.symbol = limits.symbol"
    )
    snapshot = spark.createDataFrame([("zoe", "A", 1.0)], "account string, symbol string, shares double")
    snapshot.createOrReplaceTempView("snapshot")
    elsewhere = sql.replace("FROM holdings", "FROM db.holdings")
    found = world.changes(plan_of(sql), views={"holdings": "snapshot", "limits": "no_such_view"})
    other = world.changes(plan_of(elsewhere), views={"holdings": "snapshot", "db.holdings": "snapshot"})
    spark.catalog.dropTempView("snapshot")
    assert {row["account"] for row in found.collect()} == {"zoe"}
    assert rows_of(found) == rows_of(other)


def test_columns_without_equality_are_refused(small_world):
    for sql in (
        "SELECT CAST(price AS VARIANT) AS j FROM quotes",
        "SELECT CAST(price AS VARIANT) AS j FROM quotes LIMIT 1",
    ):
        with pytest.raises(DeadbandError, match="column j of type VARIANT cannot be compared"):
            small_world.changes(plan_of(sql))


def test_a_query_that_spark_refuses_runs_a_tick_at_a_time(small_world, caplog):
    refused = sqlglot.parse_one("SELECT q.nothing FROM __ticks_quotes AS q", dialect="spark")
    plan = replace(plan_of(COUNT), query=refused)
    assert rows_of(small_world.changes(plan)) == small_world.found(COUNT)
    assert "Spark refused the query" in caplog.text


def test_a_body_that_spark_refuses_is_an_error(small_world):
    plan = plan_of("SELECT NO_SUCH_FUNCTION(symbol) AS x FROM quotes")
    with pytest.raises(DeadbandError, match="Spark cannot run this query"):
        small_world.changes(plan)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT symbol FROM quotes LIMIT 3", "one job a tick: LIMIT in SELECT"),
        ("SELECT symbol, RAND() AS r FROM quotes", "one job a tick: RAND() gives another value each time"),
        ("SELECT symbol FROM quotes WHERE price > (SELECT 1 FROM fills)", "fills is read inside WHERE"),
        ("SELECT COUNT(*) AS n FROM quotes", "all ticks in one job: COUNT(*) needs all rows of a tick"),
        (
            "SELECT f.id FROM quotes q LEFT JOIN fills f ON f.symbol = q.symbol",
            "LEFT JOIN f depends on rows of a stream",
        ),
        ("SELECT symbol FROM quotes TABLESAMPLE (10 PERCENT)", "gives another value each time"),
        ("SELECT symbol FROM quotes AS z(symbol, b, c, d)", "column names of a stream"),
    ],
)
def test_the_reason_names_the_part(sql, reason):
    assert reason in plan_of(sql).reason
