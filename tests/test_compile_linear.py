"""Linear forms against plain SQL: what the weights query, slots and edges of a plan add up to, and which of its
candidates is the least or most, is what DuckDB answers."""

import math
import os
from collections.abc import Iterable

import duckdb
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

import deadband
from deadband.compiler.physical import AdaptiveFilter, EmitOnDrift

EXAMPLES = int(os.environ.get("DEADBAND_FUZZ", "0"))
quick = settings(
    max_examples=EXAMPLES or 250,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

DECLARED = """
CREATE STREAM q (k INT, x DOUBLE, y DOUBLE, t INT) KEY (k) TIMESTAMP BY t;
CREATE TABLE h (k INT, g INT, a DOUBLE, b DOUBLE);
"""

# ---------------------------------------------------------------- expressions

number = st.sampled_from(["0", "1", "2", "-3", "0.5", "10"])
static_leaf = st.one_of(st.sampled_from(["h.a", "h.b", "h.a", "h.b", "q.k"]), number)
condition = st.sampled_from(
    ["h.a > 0", "h.a > h.b", "h.b IS NULL", "h.a = 1 OR h.b < 0", "NOT h.a > 0", "q.k > 1", "h.a IN (0, 1)"]
)


def combined(inner, *forms):
    """Expressions made of expressions: {} stands for one of them."""
    return st.one_of(
        *(st.tuples(*[inner] * form.count("{}")).map(lambda parts, f=form: f.format(*parts)) for form in forms)
    )


static = st.recursive(
    static_leaf,
    lambda s: combined(s, "({} + {})", "({} - {})", "{} * {}", "-({})", "({}) / ({})", "COALESCE({}, 1)", "ABS({})"),
    max_leaves=3,
)
row = st.sampled_from(["q.x", "q.y", "q.x", "q.y", "q.x * q.y", "GREATEST(q.x, q.y)", "ABS(q.x)", "COALESCE(q.x, 2)", "q.x / q.y", "CASE WHEN q.x > 1 THEN q.y END", "CAST(q.x AS INT)", "(q.x - q.y) * q.x"])  # fmt: skip


def affine_of(inner):
    branches = st.tuples(condition, inner, condition, inner, inner)
    scaled = st.tuples(static, inner)
    return st.one_of(
        combined(inner, "{} + {}", "{} - {}", "-({})", "({})", "CAST({} AS DOUBLE)", "({}) * ({})"),
        scaled.map(lambda p: f"({p[0]}) * ({p[1]})"),
        scaled.map(lambda p: f"({p[1]}) * ({p[0]})"),
        scaled.map(lambda p: f"({p[1]}) / ({p[0]})"),
        st.tuples(inner, row).map(lambda p: f"({p[0]}) / ({p[1]})"),
        branches.map(lambda p: f"CASE WHEN {p[0]} THEN {p[1]} WHEN {p[2]} THEN {p[3]} ELSE {p[4]} END"),
        branches.map(lambda p: f"CASE WHEN {p[0]} THEN {p[1]} END"),
        branches.map(lambda p: f"IF({p[0]}, {p[1]}, {p[3]})"),
        st.tuples(inner, inner).map(lambda p: f"CASE h.a WHEN 1 THEN {p[0]} WHEN h.b THEN {p[1]} END"),
    )


affine = st.recursive(st.one_of(row, row, static), affine_of, max_leaves=5)
aggregate = st.one_of(
    affine.map("SUM({})".format),
    affine.map("AVG({})".format),
    affine.map("COUNT({})".format),
    st.just("COUNT(*)"),
    st.tuples(affine, condition.filter(lambda c: "q." not in c)).map(lambda p: f"SUM({p[0]}) FILTER (WHERE {p[1]})"),
    affine.map("COALESCE(SUM({}), 7)".format),
    affine.map("2 * SUM({}) / 4 - 1".format),
    affine.map("5 - COALESCE(AVG({}), 1) * 3".format),
    affine.map("-(1 + COUNT({}))".format).map(lambda s: s.replace("-(1 + ", "(1 + ")),
)
extremum = st.one_of(
    affine.map("MIN({})".format),
    affine.map("MAX({})".format),
    affine.map("MAX(DISTINCT {})".format),
    st.tuples(affine, condition.filter(lambda c: "q." not in c)).map(lambda p: f"MIN({p[0]}) FILTER (WHERE {p[1]})"),
    affine.map("COALESCE(MAX({}), 7)".format),
    affine.map("-MIN({})".format),
    affine.map("MAX({}) * -2 + 1".format),
    affine.map("3 - MIN({}) / 4".format),
    affine.map("-(-MAX({})) * 0".format),
    affine.map("5 - COALESCE(MIN({}), 1) / -2".format),
)
value = st.sampled_from([None, 0.0, 1.0, -1.0, 2.0, 3.0])
items = st.lists(st.tuples(value, value), max_size=4)
members = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, None]), value, value), max_size=6)


@st.composite
def queries(draw) -> str:
    return drawn_query(draw, aggregate)


@st.composite
def extremum_queries(draw) -> str:
    return drawn_query(draw, extremum)


def drawn_query(draw, first) -> str:
    answers = [draw(first), *draw(st.lists(st.one_of(aggregate, first), max_size=1))]
    outputs = [f"{a} AS v{i}" for i, a in enumerate(answers)]
    join = draw(st.sampled_from(["JOIN h ON q.k = h.k", "LEFT JOIN h ON q.k = h.k", ", h", "JOIN h USING (k)"]))
    where = draw(st.sampled_from(["", "WHERE h.a > 0", "WHERE q.k = h.k", "WHERE h.a IS NOT NULL AND q.k < 3"]))
    group = draw(st.sampled_from(["", "h.g", "h.g + 1", "q.k"]))
    text = f"SELECT {', '.join([f'{group} AS g'] * bool(group) + outputs)} FROM q {join} {where}"
    return f"{text} GROUP BY {group}" if group else text


# ---------------------------------------------------------------- both ways to answer


@pytest.fixture(scope="module")
def duck():
    connection = duckdb.connect()
    connection.execute("SET ieee_floating_point_ops = false")  # x / 0 is NULL
    connection.execute("CREATE TABLE q (k INT, x DOUBLE, y DOUBLE, t INT)")
    connection.execute("CREATE TABLE h (k INT, g INT, a DOUBLE, b DOUBLE)")
    yield connection
    connection.close()


def as_duck(node) -> str:
    tree = parse_one(node, dialect="spark") if isinstance(node, str) else node
    return tree.copy().transform(_struct).sql("duckdb", identify=True)


def _struct(node):
    """NAMED_STRUCT('c', x, …) as DuckDB has it."""
    if not isinstance(node, exp.Anonymous) or node.name != "NAMED_STRUCT":
        return node
    pairs = zip(node.expressions[::2], node.expressions[1::2])
    return exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier(k.name), expression=v) for k, v in pairs])


def answers_of(plan: EmitOnDrift | AdaptiveFilter, duck) -> dict:
    """Group -> answers, by the arithmetic of the operator."""
    duck.execute("CREATE OR REPLACE TEMP TABLE __keys AS SELECT k, k AS __item FROM q")
    weights = duck.execute(as_duck(plan.weights.query)).fetchdf().to_dict("records")
    features = ", ".join(as_duck(f) for f in plan.features) or "1"
    values = {row[0]: row[1:] for row in duck.execute(f"SELECT k, {features} FROM q").fetchall()}
    totals: dict = {} if plan.shape.groups else {(): {}}
    for record in weights:
        group = tuple(none(record[f"g{i}"]) for i in range(len(plan.shape.groups)))
        found = totals.setdefault(group, {})
        row = values[record["__item"]]
        for edge in plan.edges:
            slot = plan.slots[edge.slot]
            weight = none(record[edge.column])
            if weight is None or any(none(row[n]) is None for n in slot.needs):
                continue
            amount = weight * (1 if slot.feature is None else row[slot.feature])
            found[edge.total, edge.answer] = found.get((edge.total, edge.answer), 0.0) + amount
        for candidate in plan.candidates if isinstance(plan, AdaptiveFilter) else ():
            competing(plan, candidate, row, record[candidate.column], found)
    return {g: [answer(a, i, t) for i, a in enumerate(plan.shape.answers)] for g, t in totals.items()}


def competing(plan: AdaptiveFilter, candidate, row: tuple, weights, found: dict) -> None:
    """The values with which an item competes, under ("all", answer)."""
    flag, slots = plan.slots[candidate.flag], [plan.slots[s] for s in candidate.slots]
    assert flag.feature is None and all(s.needs == flag.needs and s.feature is not None for s in slots)
    if any(none(row[n]) is None for n in flag.needs) or not isinstance(weights, Iterable):
        return
    for w in (w for w in weights if w is not None):
        assert list(w) == ["c", *(f"w{k}" for k in range(len(slots)))] and None not in w.values()
        number = w["c"] + sum(w[f"w{k}"] * float(row[s.feature]) for k, s in enumerate(slots))
        found.setdefault(("all", candidate.answer), []).append(number)


def answer(shape, index: int, totals: dict) -> float | None:
    if shape.kind in ("MIN", "MAX"):
        values = totals.get(("all", index))
        return (min if shape.kind == "MIN" else max)(values) + shape.offset if values else shape.default
    count, total = totals.get(("count", index), 0.0), totals.get(("sum", index), 0.0)
    if shape.kind == "COUNT":
        return count + shape.offset
    if count == 0:
        return shape.default
    return (total if shape.kind == "SUM" else total / count) + shape.offset


def none(value):
    return None if value is None or value != value else value


def fill(duck, table: str, rows: list[tuple]) -> None:
    duck.execute(f"DELETE FROM {table}")
    if rows:
        duck.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


@quick
@given(queries(), items, members)
@example(
    "SELECT SUM(h.a * (q.x - h.b)) AS v0 FROM q JOIN h USING (k)",
    [(1.0, None), (3.0, 1.0)],
    [(0, 1, 5.0, None), (1, 1, 2.0, 0.0)],
)
@example(
    "SELECT AVG(h.a * (q.x - h.b)) AS v0 FROM q JOIN h USING (k)",
    [(1.0, None), (None, 1.0)],
    [(0, 1, 5.0, None), (1, 1, 2.0, 0.0)],
)
@example("SELECT SUM(0 * q.x + h.a) AS v0 FROM q JOIN h USING (k)", [(None, None)], [(0, 1, 5.0, None)])
def test_linear_forms_answer_as_sql(duck, query, stream, table):
    check(duck, query, stream, table, "COHERENCY")


@quick
@given(extremum_queries(), items, members)
@example("SELECT -MIN(h.a * q.x) AS v0 FROM q, h", [(1.0, None), (3.0, 1.0)], [(0, 1, 5.0, None), (1, 1, -2.0, 0.0)])
@example("SELECT MIN(q.x + q.y + h.a) AS v0 FROM q, h", [(1.0, None), (3.0, 1.0)], [(0, 1, 5.0, None)])
@example("SELECT MAX(h.a) AS v0, SUM(q.x) AS v1 FROM q, h", [(1.0, None)], [(0, 1, 5.0, None), (0, 1, None, None)])
def test_extremum_forms_answer_as_sql(duck, query, stream, table):
    check(duck, query, stream, table, "PRECISION")


def check(duck, query, stream, table, clause):
    try:
        (plan,) = deadband.compile(DECLARED + f"CREATE CONTINUOUS QUERY t AS {query} {clause} v0 WITHIN 1;")
    except deadband.DeadbandError:
        assume(False)
    fill(duck, "q", [(k, *values, 0) for k, values in enumerate(stream)])
    fill(duck, "h", table)
    grouped = bool(plan.tree.shape.groups)
    truth = {row[:1] if grouped else (): row[grouped:] for row in duck.execute(as_duck(query)).fetchall()}
    ours = answers_of(plan.tree, duck)
    assert set(ours) == set(truth)
    for group, values in truth.items():
        for mine, theirs in zip(ours[group], values):
            assert (mine is None) == (theirs is None), (group, mine, theirs)
            assert mine is None or math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9), (group, mine, theirs)
