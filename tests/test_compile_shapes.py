"""One shape, however it is written: aliases, order, JOIN or comma, CTEs, BETWEEN or two comparisons, moved terms, ABS."""

import re

import pytest

import deadband

DECLARED = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE STREAM trades (symbol STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);
CREATE TABLE sectors (symbol STRING, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE, mid DOUBLE, width DOUBLE);
"""

# shape -> (what EXPLAIN says of it, the ways to write it); other aliases are written q, h, s, d and renamed below
SHAPES = {
    "LinearAggregate": (
        {"stream": "quotes", "groups": ["h.account"], "answers": ["SUM(h.shares * q.price)"], "features": ["`price`"]},
        [
            "SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account",
            "SELECT account, SUM(shares * price) AS v FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY account",
            "SELECT h.account, SUM(h.shares * q.price) AS v FROM holdings h JOIN quotes q ON h.symbol = q.symbol GROUP BY h.account",
            "SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q, holdings h WHERE q.symbol = h.symbol GROUP BY h.account",
            "SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h USING (symbol) GROUP BY 1",
            "SELECT h.account AS who, SUM(h.shares * q.price) AS v FROM quotes q NATURAL JOIN holdings h GROUP BY who",
            "SELECT h.ACCOUNT, SUM(h.Shares * Q.Price) AS v FROM QUOTES Q JOIN Holdings h ON q.symbol = h.symbol GROUP BY h.Account",
            "WITH q AS (SELECT symbol, price FROM quotes), h AS (SELECT * FROM holdings)"
            " SELECT h.account, SUM(h.shares * q.price) AS v FROM q JOIN h ON q.symbol = h.symbol GROUP BY h.account",
            "SELECT account, SUM(w) AS v FROM (SELECT h.account, h.shares * q.price AS w FROM quotes q JOIN holdings h"
            " ON q.symbol = h.symbol) t GROUP BY account",
            "(SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account)",
            "SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q CROSS JOIN holdings h WHERE h.symbol = q.symbol"
            " GROUP BY h.account ORDER BY v",
        ],
    ),
    "ExtremumAggregate": (
        {"stream": "quotes", "groups": ["h.account"], "answers": ["MAX(q.price)"], "features": ["`price`"]},
        [
            "SELECT h.account, MAX(q.price) AS m FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account",
            "SELECT account, MAX(price) AS m FROM holdings h, quotes q WHERE q.symbol = h.symbol GROUP BY account",
            "WITH t AS (SELECT h.account, q.price FROM quotes q JOIN holdings h USING (symbol))"
            " SELECT account, MAX(price) AS m FROM t GROUP BY account",
        ],
    ),
    "RangeAggregate": (
        {
            "stream": "quotes",
            "subscriptions": "subs",
            "ranges": ["q.risk >= s.lo", "q.risk <= s.hi"],
            "answers": ["MIN(q.per)"],
        },
        [
            "SELECT s.id, MIN(q.per) AS m FROM subs s JOIN quotes q ON q.risk BETWEEN s.lo AND s.hi GROUP BY s.id",
            "SELECT s.id, MIN(q.per) AS m FROM quotes q JOIN subs s ON q.risk >= s.lo AND q.risk <= s.hi GROUP BY s.id",
            "SELECT s.id, MIN(q.per) AS m FROM quotes q, subs s WHERE s.hi >= q.risk AND s.lo <= q.risk GROUP BY s.id",
            "SELECT s.id, MIN(q.per) AS m FROM quotes q, subs s WHERE q.risk - s.lo >= 0 AND 0 >= q.risk - s.hi GROUP BY s.id",
            "SELECT s.id, MIN(q.per) AS m FROM quotes q, subs s WHERE NOT (q.risk < s.lo OR q.risk > s.hi) GROUP BY s.id",
            "SELECT s.id, MIN(q.per) AS m FROM quotes q, subs s WHERE 2 * q.risk >= 2 * s.lo AND -q.risk >= -s.hi GROUP BY s.id",
            "SELECT id, MIN(per) AS m FROM (SELECT s.id, q.per FROM quotes q JOIN subs s ON q.risk BETWEEN s.lo AND s.hi) t GROUP BY id",
            "SELECT s.id, MIN(q.per) AS m FROM quotes q JOIN subs s ON s.lo <= q.risk WHERE q.risk <= s.hi AND TRUE GROUP BY s.id",
        ],
    ),
    "RangeSelect": (
        {
            "stream": "quotes",
            "subscriptions": "subs",
            "ranges": ["q.risk >= s.mid - s.width", "q.risk <= s.mid + s.width"],
        },
        [
            "SELECT s.id, q.symbol, q.price FROM subs s JOIN quotes q ON ABS(q.risk - s.mid) <= s.width",
            "SELECT s.id, q.symbol FROM subs s, quotes q WHERE s.width >= ABS(s.mid - q.risk)",
            "SELECT s.id, q.* FROM subs s JOIN quotes q ON q.risk BETWEEN s.mid - s.width AND s.mid + s.width",
            "SELECT s.id FROM subs s JOIN quotes q ON q.risk + s.width >= s.mid AND q.risk - s.mid - s.width <= 0",
            "WITH s AS (SELECT * FROM subs) SELECT s.id, q.price FROM quotes q JOIN s ON ABS(q.risk - s.mid) <= s.width",
        ],
    ),
    "BandJoin": (
        {
            "left": "quotes",
            "right": "demand",
            "subscriptions": "subs",
            "bands": ["q.price - d.price >= s.lo", "q.price - d.price <= s.hi"],
            "selections": [],
            "equalities": [],
        },
        [
            "SELECT s.id, q.symbol, d.id AS d FROM quotes q, demand d, subs s WHERE q.price - d.price BETWEEN s.lo AND s.hi",
            "SELECT s.id, q.symbol, d.id AS d FROM quotes q JOIN demand d JOIN subs s ON q.price - d.price >= s.lo AND q.price - d.price <= s.hi",
            "SELECT s.id, q.symbol, d.id AS d FROM quotes q, demand d, subs s WHERE q.price >= d.price + s.lo AND d.price + s.hi >= q.price",
            "SELECT s.id, q.symbol, d.id AS d FROM quotes q, demand d, subs s WHERE s.lo <= q.price - d.price AND q.price <= d.price + s.hi",
        ],
    ),
    "SelectJoin": (
        {
            "left": "quotes",
            "right": "demand",
            "subscriptions": "subs",
            "equalities": ["q.symbol = d.symbol"],
            "selections": ["q.risk >= s.lo", "d.price <= s.hi"],
        },
        [
            "SELECT s.id, q.price, d.id AS d FROM quotes q JOIN demand d ON q.symbol = d.symbol JOIN subs s ON q.risk >= s.lo AND d.price <= s.hi",
            "SELECT s.id, q.price, d.id AS d FROM quotes q, demand d, subs s WHERE q.symbol = d.symbol AND s.lo <= q.risk AND s.hi - d.price >= 0",
            "WITH j AS (SELECT q.symbol, q.price, q.risk, d.id, d.price AS p FROM quotes q JOIN demand d ON q.symbol = d.symbol)"
            " SELECT s.id, j.price, j.id AS d FROM j, subs s WHERE j.risk >= s.lo AND j.p <= s.hi",
        ],
    ),
    "EquiJoin": (
        {"left": "quotes", "right": "demand", "equalities": ["q.symbol = d.symbol"]},
        [
            "SELECT q.price, d.id FROM quotes q JOIN demand d ON q.symbol = d.symbol",
            "SELECT q.price, d.id FROM quotes q, demand d WHERE q.symbol = d.symbol",
            "SELECT q.price, d.id FROM quotes q JOIN demand d USING (symbol)",
            "SELECT q.price, d.id FROM (SELECT * FROM quotes) q JOIN (SELECT id, symbol FROM demand) d ON q.symbol = d.symbol",
        ],
    ),
}
VARIANTS = [(name, text) for name, (_, texts) in SHAPES.items() for text in texts]


def shape_of(text: str) -> dict:
    (plan,) = deadband.compile(f"{DECLARED} CREATE CONTINUOUS QUERY t AS {text};")
    return plan.json["shape"]


@pytest.mark.parametrize(("name", "text"), VARIANTS)
def test_shape_of(name, text):
    found = shape_of(text)
    assert found.pop("name") == name
    assert in_order(found) == in_order(SHAPES[name][0])


@pytest.mark.parametrize(("name", "text"), VARIANTS)
def test_other_aliases(name, text):
    """quotes is called a, its partner z: only the names of the aliases change."""
    renamed = re.sub(r"\bq\b", "a", re.sub(r"\bs\b", "z", text, flags=re.I), flags=re.I)
    found = shape_of(renamed)
    assert found["name"] == name
    assert {k: len(v) for k, v in found.items() if isinstance(v, list)} == {
        k: len(v) for k, v in SHAPES[name][0].items() if isinstance(v, list)
    }


def in_order(detail: dict) -> dict:
    """Details as people compare them: conditions in any order, and tables of a CTE by the alias they have elsewhere."""
    aliases = {"quotes.": "q.", "holdings.": "h.", "subs.": "s.", "demand.": "d."}
    found = {}
    for key, value in detail.items():
        if isinstance(value, list):
            for table, alias in aliases.items():
                value = [v.replace(table, alias) for v in value]
            value = sorted(value)
        found[key] = value
    return found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT COUNT(*) AS n FROM quotes WHERE risk BETWEEN 1 AND 2", "RangeAggregate"),
        ("SELECT COUNT(DISTINCT per) AS n FROM quotes WHERE risk > 1", "RangeAggregate"),
        ("SELECT SUM(price) AS v, AVG(price) AS m FROM trades WHERE price > 1", "RangeAggregate"),
        ("SELECT symbol FROM trades WHERE price > 1 AND price < 5", "RangeSelect"),
        ("SELECT symbol FROM quotes WHERE risk > 1 AND price < 5 AND per >= 2", "RangeSelect"),
        ("SELECT a.symbol FROM trades a JOIN trades b ON a.symbol = b.symbol", "EquiJoin"),
        ("SELECT q.symbol FROM quotes q JOIN demand d ON ABS(q.price - d.price) < 5", "BandJoin"),
        ("SELECT q.symbol FROM quotes q JOIN demand d ON q.symbol = d.symbol AND q.price > 5", "SelectJoin"),
        ("SELECT MIN(price) AS m FROM quotes", "ExtremumAggregate"),
        ("SELECT MIN(price) AS m, MAX(price) AS n FROM quotes WHERE symbol > 'a'", "ExtremumAggregate"),
        ("SELECT MIN(price) AS m, SUM(price) AS s FROM quotes", "ExtremumAggregate"),
        ("SELECT AVG(price) AS m FROM quotes", "LinearAggregate"),
        ("SELECT COUNT(*) AS n FROM quotes", "LinearAggregate"),
        ("SELECT SUM(price * risk) AS v FROM quotes", "LinearAggregate"),
        # exact: what no narrower shape says
        ("SELECT symbol, price FROM quotes", "Exact"),
        ("SELECT symbol FROM quotes WHERE risk > 1 OR price > 1", "Exact"),
        ("SELECT symbol FROM quotes WHERE symbol LIKE 'a%' AND risk > 1", "Exact"),
        ("SELECT MIN(price) AS m FROM trades", "Exact"),
        ("SELECT SUM(price) AS m FROM trades", "Exact"),
        ("SELECT risk, SUM(price) AS v FROM quotes GROUP BY risk", "Exact"),
        ("SELECT symbol, SUM(price) AS v FROM quotes GROUP BY symbol HAVING SUM(price) > 5", "Exact"),
        ("SELECT SUM(price) AS v FROM quotes LIMIT 1", "Exact"),
        ("SELECT DISTINCT symbol FROM quotes", "Exact"),
        ("SELECT symbol FROM quotes UNION SELECT symbol FROM demand", "Exact"),
        ("SELECT SUM(price) OVER () AS v FROM quotes", "Exact"),
        (
            "SELECT h.account, SUM(q.price) AS v FROM holdings h LEFT JOIN quotes q USING (symbol) GROUP BY h.account",
            "Exact",
        ),
        ("SELECT q.symbol FROM quotes q JOIN demand d ON q.price > d.price OR q.symbol = d.symbol", "Exact"),
        ("SELECT SUM(price) AS v FROM quotes WHERE symbol IN (SELECT symbol FROM sectors)", "Exact"),
        ("SELECT SUM(GREATEST(q.price, h.cost)) AS v FROM quotes q JOIN holdings h USING (symbol)", "Exact"),
        ("SELECT SUM(price) AS v FROM quotes WHERE risk = risk", "Exact"),
        ("SELECT SUM(price) AS v FROM quotes WHERE risk > 3 OR TRUE", "Exact"),
        ("SELECT MAX(price) AS v FROM quotes WHERE risk > 3 OR TRUE", "Exact"),
        ("SELECT symbol FROM quotes TABLESAMPLE (10 PERCENT) WHERE risk > 1", "Exact"),
        ("SELECT symbol FROM quotes LATERAL VIEW explode(array(1, 2)) t AS x WHERE risk > 1", "Exact"),
    ],
)
def test_other_shapes(text, name):
    found = shape_of(text)
    assert found["name"] == name, found
    assert name != "Exact" or found["reason"]


def test_numbers_in_ranges_keep_their_digits():
    found = shape_of("SELECT symbol FROM quotes WHERE risk > 123456789.25 AND price < 1000000 AND 3 * per > 1")
    ranges = ["quotes.risk > 123456789.25", "quotes.price < 1000000", "quotes.per > 0.3333333333333333"]
    assert sorted(found["ranges"]) == sorted(ranges)
