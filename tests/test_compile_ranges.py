"""Ranges say what the conditions said: terms moved over a comparison, signs turned, ABS taken apart."""

import os
import re

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deadband

EXAMPLES = int(os.environ.get("DEADBAND_FUZZ", "0"))
quick = settings(
    max_examples=EXAMPLES or 120,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

DECLARED = """
CREATE STREAM q (k INT, x DOUBLE, y DOUBLE, t INT) KEY (k) TIMESTAMP BY t;
CREATE TABLE s (id INT, lo DOUBLE, hi DOUBLE);
"""
VALUES = [None, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]

term = st.sampled_from(["q.x", "s.lo", "s.hi", "1", "-2", "0.5"])
side = st.recursive(
    term,
    lambda e: st.one_of(
        st.tuples(e, e).map(lambda p: f"({p[0]} + {p[1]})"),
        st.tuples(e, e).map(lambda p: f"({p[0]} - {p[1]})"),
        e.map("-({})".format),
        st.tuples(st.sampled_from(["2", "-1", "0.5", "0"]), e).map(lambda p: f"{p[0]} * {p[1]}"),
        e.map("{} / 2".format),
    ),
    max_leaves=4,
)
op = st.sampled_from(["<", "<=", ">", ">=", "="])
condition = st.one_of(
    st.tuples(side, op, side).map(" ".join),
    st.tuples(side, st.sampled_from(["<", "<="]), side).map(lambda p: f"ABS({p[0]}) {p[1]} {p[2]}"),
    st.tuples(side, st.sampled_from([">", ">="]), side).map(lambda p: f"{p[0]} {p[1]} ABS({p[2]})"),
    st.tuples(side, side, side).map(lambda p: f"{p[0]} BETWEEN {p[1]} AND {p[2]}"),
    st.tuples(side, op, side).map(lambda p: f"NOT ({' '.join(p)})").filter(lambda c: " = " not in c),
)


@pytest.fixture(scope="module")
def duck():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE q (k INT, x DOUBLE, y DOUBLE, t INT)")
    connection.execute("CREATE TABLE s (id INT, lo DOUBLE, hi DOUBLE)")
    for i, x in enumerate(VALUES):
        connection.execute("INSERT INTO q VALUES (?, ?, ?, 0)", (i, x, x))
    for i, (lo, hi) in enumerate((a, b) for a in VALUES for b in VALUES):
        connection.execute("INSERT INTO s VALUES (?, ?, ?)", (i, lo, hi))
    yield connection
    connection.close()


@quick
@given(st.lists(condition, min_size=1, max_size=2))
def test_ranges_keep_the_rows_of_the_conditions(duck, conditions):
    where = " AND ".join(f"({c})" for c in conditions)
    (plan,) = deadband.compile(f"{DECLARED} CREATE CONTINUOUS QUERY t AS SELECT s.id, q.k FROM q, s WHERE {where};")
    shape = plan.json["shape"]
    if shape["name"] != "RangeSelect":
        return
    ranges = " AND ".join([*shape["ranges"], *shape.get("where", ())])
    if re.search(r"\d\.\d{9}", ranges):
        return  # a third is no double: the edges round otherwise
    assert rows(duck, where) == rows(duck, ranges), (where, ranges)


def rows(duck, where: str) -> set:
    return set(duck.execute(f"SELECT s.id, q.k FROM q, s WHERE {where}").fetchall())
