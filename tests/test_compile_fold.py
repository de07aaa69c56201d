"""Queries that differ only in literals run as one group; literals that change what a query is keep them apart."""

import pytest

import deadband
from deadband.compiler.catalog import Catalog
from deadband.compiler.parse import parse
from deadband.compiler.program import Program

DECLARED = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, volume DECIMAL(10, 2), at TIMESTAMP)
  KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DECIMAL(10, 2), sector STRING, bought DATE);
"""
JOIN = "FROM quotes q JOIN holdings h USING (symbol)"


def program(*bodies: str) -> Program:
    made = Program(Catalog())
    for statement in parse(DECLARED + "".join(f"CREATE CONTINUOUS QUERY q{i} AS {b};" for i, b in enumerate(bodies))):
        made.add(statement)
    return made


def groups(*bodies: str) -> list[list[str]]:
    return [[q.name for q in g.queries] for g in program(*bodies).groups()]


TOGETHER = {
    "strings": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.sector = '{s}' COHERENCY v WITHIN 5" for s in ("a", "it''s", "")],
    "ints": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.shares > {n}" for n in (1, 22, 333)],
    "decimals": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.shares > {n} COHERENCY v WITHIN 5" for n in (1.5, 22.25, 0.125)],
    "signs": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.shares > -{n}" for n in (1, 2)],
    "lists": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.sector IN ('{a}', '{b}')" for a, b in ("ab", "cd")],
    "between": [f"SELECT MIN(price) AS v FROM quotes WHERE risk BETWEEN {a} AND {b}" for a, b in ((1, 2), (3, 4))],
    "weights": [f"SELECT SUM({n} * q.price * h.shares) AS v {JOIN} COHERENCY v WITHIN 5" for n in (1, 2, 0)],
    "cases": [f"SELECT SUM(CASE h.sector WHEN '{s}' THEN {n} ELSE 0 END * q.price) AS v {JOIN}" for s, n in (("a", 1), ("b", 2))],
    "filters": [f"SELECT SUM(q.price) FILTER (WHERE h.sector = '{s}') AS v {JOIN} COHERENCY v WITHIN 5" for s in "ab"],
    "bounds": [f"SELECT SUM(q.price) AS v {JOIN} COHERENCY v WITHIN {n}" for n in (1, 2.5)],
    "bounded columns": [f"SELECT SUM(price) AS v, SUM(risk) AS w FROM quotes COHERENCY {n} WITHIN 5" for n in "vw"],
    "joins": [f"SELECT SUM(q.price) AS v FROM quotes q LEFT JOIN holdings h ON q.symbol = h.symbol AND h.shares > {n}" for n in (1, 2)],
    "selections": [f"SELECT symbol FROM quotes WHERE risk > {n} AND symbol <> '{n}'" for n in (1, 2)],
    "spaces and comments": ["SELECT MIN(price) AS v FROM quotes WHERE risk > 1", "SELECT  MIN( price ) /* x */ AS v FROM quotes\nWHERE risk > 2 -- y\n"],
    "the same text": ["SELECT DISTINCT symbol FROM quotes"] * 2,
    "a dated comparison": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.bought > '{d}'" for d in ("2024-01-01", "2025-01-01")],
}  # fmt: skip
APART = {
    "group by 1 and 2": [f"SELECT h.account, h.sector, SUM(q.price) AS v {JOIN} GROUP BY {g}" for g in ("1, 2", "2, 1")],
    "limit": [f"SELECT symbol FROM quotes LIMIT {n}" for n in (1, 2)],
    "having": [f"SELECT symbol, SUM(price) AS v FROM quotes GROUP BY symbol HAVING SUM(price) > {n}" for n in (1, 2)],
    "inside a feature": [f"SELECT SUM(GREATEST(price, {n})) AS v FROM quotes COHERENCY v WITHIN 5" for n in (1, 2)],
    "a condition inside a feature": [f"SELECT SUM(CASE WHEN risk > {n} THEN price END) AS v FROM quotes" for n in (1, 2)],
    "an interval": [f"SELECT symbol FROM quotes WHERE at > TIMESTAMP '2024-01-01' + INTERVAL '{n}' DAYS" for n in (1, 2)],
    "a typed literal": [f"SELECT symbol FROM quotes WHERE at > TIMESTAMP '202{n}-01-01'" for n in (1, 2)],
    "an output": [f"SELECT {n} AS n, SUM(price) AS v FROM quotes COHERENCY v WITHIN 5" for n in (1, 2)],
    "beside the aggregate": [f"SELECT SUM(price) + {n} AS v FROM quotes COHERENCY v WITHIN 5" for n in (1, 2)],
    "a factor of the aggregate": [f"SELECT {n} * SUM(price) AS v FROM quotes COHERENCY v WITHIN 5" for n in (1, 2)],
    "a default": [f"SELECT COALESCE(SUM(price), {n}) AS v FROM quotes COHERENCY v WITHIN 5" for n in (1, 2)],
    "a group": [f"SELECT h.shares + {n} AS g, SUM(q.price) AS v {JOIN} GROUP BY h.shares + {n}" for n in (1, 2)],
    "a pattern": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.sector LIKE '{s}%'" for s in "ab"],
    "a coefficient of a range": [f"SELECT symbol FROM quotes WHERE {n} * risk > 5" for n in (0, 1)],
    "an order": [f"SELECT symbol, price FROM quotes ORDER BY {n}" for n in (1, 2)],
    "int and decimal": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.shares > {n}" for n in ("1", "1.5")],
    "number and string": [f"SELECT SUM(q.price) AS v {JOIN} WHERE h.shares > {n}" for n in ("1", "'1'")],
    "exact decimals": [f"SELECT symbol FROM quotes WHERE volume > {n}" for n in (1.5, 2.5)],
    "exact decimals in a sum": [f"SELECT SUM({n} * volume) AS v FROM quotes" for n in (1.5, 2.5)],
    "long integers": [f"SELECT symbol FROM quotes WHERE risk > {n}" for n in (12345678901, 12345678902)],
    "lists of other length": ["SELECT symbol FROM quotes WHERE symbol IN ('a')", "SELECT symbol FROM quotes WHERE symbol IN ('a', 'b')"],
    "columns": [f"SELECT MIN({c}) AS v FROM quotes WHERE risk > 5" for c in ("price", "risk")],
    "percent and absolute": [f"SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN {b}" for b in ("5", "5%")],
    "fidelity": [f"SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN 5 FIDELITY {f}%" for f in (98, 99)],
    "emission": [f"SELECT SUM(price) AS v FROM quotes EMIT EVERY INTERVAL {n} HOURS" for n in (1, 2)],
    "with and without a clause": ["SELECT SUM(price) AS v FROM quotes", "SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN 5"],
    "names of outputs": [f"SELECT SUM(price) AS {n} FROM quotes" for n in "vw"],
}  # fmt: skip


@pytest.mark.parametrize("bodies", TOGETHER.values(), ids=TOGETHER)
def test_together(bodies):
    assert groups(*bodies) == [[f"q{i}" for i in range(len(bodies))]]


@pytest.mark.parametrize("bodies", APART.values(), ids=APART)
def test_apart(bodies):
    assert groups(*bodies) == [[f"q{i}"] for i in range(len(bodies))]


def test_a_member_has_its_own_literals_and_bound():
    made = program(
        *(
            f"SELECT SUM(q.price) AS v {JOIN} WHERE h.sector = '{s}' AND h.shares > {n} COHERENCY v WITHIN {n}"
            for s, n in (("a", 1), ("b", 2))
        )
    )
    first, second = made.plans()
    assert [q.literals for q in made.queries.values()] == [("a", 1), ("b", 2)]
    assert "<= 1 " in first.guarantee and "<= 2 " in second.guarantee
    assert first.tree is second.tree
    assert "like" not in first.json["shape"]
    assert (second.json["shape"]["like"], second.json["shape"]["literals"]) == ("q0", ["b", 2])


def test_a_member_shows_its_own_shape():
    texts = [
        f"SELECT MIN(price) + 1 AS v FROM quotes WHERE risk BETWEEN {n} AND {n + 1} AND symbol > 'x{n}'" for n in (1, 5)
    ]
    first, second = program(*texts).plans()
    assert sorted(first.json["shape"]["ranges"]) == ["quotes.risk <= 2", "quotes.risk >= 1", "quotes.symbol > 'x1'"]
    assert sorted(second.json["shape"]["ranges"]) == ["quotes.risk <= 6", "quotes.risk >= 5", "quotes.symbol > 'x5'"]


def test_folding_forgets_nothing_when_a_query_goes():
    made = program(*(f"SELECT MIN(price) AS v FROM quotes WHERE risk > {n}" for n in range(3)))
    for statement in parse("DROP CONTINUOUS QUERY q0; ALTER CONTINUOUS QUERY q1 SET EMIT EVERY INTERVAL 1 HOUR;"):
        made.add(statement)
    assert [[q.name for q in g.queries] for g in made.groups()] == [["q1"], ["q2"]]
    assert [q.literals for q in made.queries.values()] == [(1,), (2,)]


def test_a_new_catalog_binds_anew():
    """What was bound before a table changed does not stand for what comes after."""
    made = program("SELECT SUM(q.price) AS v FROM quotes q JOIN holdings h USING (symbol) WHERE h.sector = 'a'")
    for statement in parse(
        "DROP TABLE holdings; CREATE TABLE holdings (symbol STRING, sector INT);"
        "CREATE CONTINUOUS QUERY q1 AS SELECT SUM(q.price) AS v FROM quotes q JOIN holdings h USING (symbol) WHERE h.sector = 'b';"
    ):
        made.add(statement)
    assert len(made.groups()) == 2


def test_ten_thousand_queries_are_one_group():
    text = DECLARED + "".join(
        f"CREATE CONTINUOUS QUERY q{i} AS SELECT h.account, SUM(h.shares * q.price) AS value {JOIN}"
        f" WHERE h.sector = 's{i % 97}' AND h.shares > {i} GROUP BY h.account COHERENCY value WITHIN {i % 50 + 1};"
        for i in range(10_000)
    )
    plans = deadband.compile(text)
    assert len(plans) == 10_000
    assert len({id(p.tree) for p in plans}) == 1
    assert plans[-1].json["shape"]["literals"] == [f"s{9_999 % 97}", 9_999]
