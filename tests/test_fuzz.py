"""Whatever is written, only DeadbandError comes out of deadband.compile, and it points into the text."""

import os
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deadband

# DEADBAND_FUZZ=20000 looks longer
EXAMPLES = int(os.environ.get("DEADBAND_FUZZ", "0"))
quick = settings(
    max_examples=EXAMPLES or 300,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

TABLES = {
    "holdings": {"account": "string", "symbol": "string", "shares": "double", "cost": "decimal(10,2)"},
    "loose": None,
}

PROGRAM = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at
  LATENESS INTERVAL '2' SECONDS DELETE WHEN price IS NULL USING parquet OPTIONS (path 'data/quotes');
CREATE STREAM other (symbol STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at SOURCE BY (symbol);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE, `precision` DOUBLE);
"""
STATEMENTS = [
    "CREATE CONTINUOUS QUERY portfolio AS SELECT h.account, SUM(h.shares * (q.price - h.cost)) AS value, COUNT(*) AS n"
    " FROM quotes q JOIN holdings h ON q.symbol = h.symbol WHERE h.account > 'a' GROUP BY h.account"
    " COHERENCY value WITHIN 80, n WITHIN 2% FIDELITY 98% OVER INTERVAL '1' HOUR INTO parquet OPTIONS (path 'out');",
    "CREATE CONTINUOUS QUERY best AS SELECT s.id, MIN(q.price) AS p FROM subs s JOIN quotes q"
    " ON q.risk BETWEEN s.lo AND s.hi GROUP BY s.id EMIT EVERY INTERVAL '1' MINUTE;",
    "CREATE CONTINUOUS QUERY cases AS SELECT SUM(CASE h.account WHEN 'a' THEN 2 * q.price WHEN 'b' THEN -q.risk ELSE 0 END"
    " / 3) FILTER (WHERE h.cost > 1.5) + 1 AS v FROM quotes q, holdings h WHERE q.symbol = h.symbol COHERENCY v WITHIN 5;",
    "CREATE CONTINUOUS QUERY band AS SELECT q.symbol AS a, o.symbol AS b FROM quotes q JOIN other o"
    " ON ABS(q.price - o.price) <= 3 AND q.risk > 1;",
    "CREATE CONTINUOUS QUERY cte AS WITH t AS (SELECT symbol, price * 2 AS p FROM quotes WHERE symbol IN ('a', 'b'))"
    " SELECT COALESCE(AVG(p), 0) AS m FROM t COHERENCY m WITHIN 0.5%;",
    "CREATE CONTINUOUS QUERY loosely AS SELECT l.g, SUM(l.w * q.price) AS v FROM quotes q JOIN loose l USING (symbol)"
    " GROUP BY 1 ORDER BY v DESC LIMIT 5;",
    "ALTER CONTINUOUS QUERY portfolio SET COHERENCY value WITHIN 40;",
    "EXPLAIN (FORMAT JSON, VERBOSE) CONTINUOUS QUERY portfolio;",
    "EXPLAIN ANALYZE SELECT SUM(price) AS v FROM quotes UNION ALL SELECT price FROM other;",
    "DROP CONTINUOUS QUERY IF EXISTS best; SHOW STREAMS; SET split = 'naive'; REFRESH TABLE holdings;",
    "CREATE AGGREGATOR d1 SERVES quotes (price) ('S1' WITHIN 0.5, 'S3' WITHIN 0.2);",
    "CREATE VIEW v AS SELECT account, SUM(shares) AS s FROM holdings GROUP BY account;",
]
WORDS = [
    "CREATE",
    "STREAM",
    "QUERY",
    "CONTINUOUS",
    "AGGREGATOR",
    "AGGREGATORS",
    "FOR",
    "SERVES",
    "ANALYZE",
    "ALTER",
    "DROP",
    "REFRESH",
    "TABLE",
    "SHOW",
    "SET",
    "EXPLAIN",
    "FORMAT",
    "VERBOSE",
    "IF",
    "NOT",
    "EXISTS",
    "AS",
    "FROM",
    "KEY",
    "TIMESTAMP",
    "BY",
    "LATENESS",
    "SOURCE",
    "DELETE",
    "WHEN",
    "PULL",
    "EVERY",
    "USING",
    "OPTIONS",
    "COHERENCY",
    "PRECISION",
    "FIDELITY",
    "RESPONSE",
    "NOTIFY",
    "MEMORY",
    "ROWS",
    "EMIT",
    "INTO",
    "WITHIN",
    "OVER",
    "INTERVAL",
    "SELECT",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "JOIN",
    "LEFT",
    "NATURAL",
    "ON",
    "AND",
    "OR",
    "CASE",
    "THEN",
    "ELSE",
    "END",
    "BETWEEN",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "UNION",
    "ALL",
    "DISTINCT",
    "WITH",
    "WINDOW",
    "PARTITION",
    "CAST",
    "SUM",
    "AVG",
    "COUNT",
    "MIN",
    "MAX",
    "ABS",
    "GREATEST",
    "COALESCE",
    "FILTER",
    "LATERAL",
    "VIEW",
    "explode",
    "PIVOT",
    "VALUES",
    "ROLLUP",
    "STRUCT",
    "ARRAY",
    "MAP",
    "quotes",
    "other",
    "holdings",
    "loose",
    "subs",
    "symbol",
    "price",
    "risk",
    "at",
    "q",
    "h",
    "s",
    "account",
    "shares",
    "value",
    "id",
    "lo",
    "hi",
    "q.price",
    "h.cost",
    "t.*",
    "*",
]
SIGNS = [
    "(",
    ")",
    ",",
    ";",
    ".",
    ":",
    "'",
    '"',
    "`",
    "--",
    "/*",
    "*/",
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<",
    ">",
    "<=",
    "=>",
    "<=>",
    "||",
    "::",
    "[",
    "]",
    "{",
    "}",
    "!",
    "?",
    "@",
    "#",
    "$",
    "&",
    "^",
    "~",
    "\\",
    "\n",
    "\t",
    "\r",
    "\x00",
]
VALUES = ["0", "1", "80", ".5", "1e9", "1e999", "-1", "5%", "98%", "0x1F", "1_000", "10L", "1.5BD", "'a'", '"b"', "`c`", "r'd\\'", "'2' SECONDS", "NaN", "٣", "²", "é", "値", "𝔘", "\u2028", "\ufeff"]  # fmt: skip
CLAUSES = ["COHERENCY value WITHIN 5", "COHERENCY WITHIN 1%", "FIDELITY 98%", "PRECISION v WITHIN 5", "MEMORY 5 ROWS", "RESPONSE WITHIN INTERVAL '1' SECOND", "NOTIFY WHEN value > 1", "EMIT EVERY INTERVAL 1 HOUR", "INTO csv", "KEY (symbol)", "TIMESTAMP BY at", "GROUP BY 1", "GROUP BY ALL", "(SELECT 1)", "SUM(price)", "SELECT * FROM quotes", "FROM quotes q", "(" * 30, ")" * 30]  # fmt: skip

fragment = st.sampled_from(WORDS + SIGNS + VALUES + CLAUSES)
soup = st.lists(st.tuples(fragment, st.sampled_from([" ", "", "\n"])), max_size=25).map(
    lambda parts: "".join(a + b for a, b in parts)
)


@st.composite
def mutated(draw) -> str:
    """A few valid statements with some of their tokens deleted, doubled, swapped, replaced or put in."""
    text = " ".join(draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=2)))
    tokens = re.findall(r"\s+|\w+|'[^']*'|.", text)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        match draw(st.integers(0, 4)):
            case 0 if len(tokens) > 1:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = draw(fragment)
            case _:
                tokens.insert(at, f" {draw(fragment)} ")
    return "".join(tokens)


def check(text: str) -> None:
    try:
        for plan in deadband.compile(text, tables=TABLES):
            assert plan.text and plan.json and plan.mermaid and plan.html
    except deadband.DeadbandError as error:
        assert error.message and error.span is not None, error
        assert 0 <= error.span.start <= error.span.end <= len(text), error
        assert str(error).startswith("<sql>:")


@quick
@given(soup)
def test_token_soup(text):
    check(text)


@quick
@given(soup)
def test_token_soup_after_a_program(text):
    check(PROGRAM + text)


@quick
@given(soup)
def test_token_soup_in_a_body(text):
    check(PROGRAM + "CREATE CONTINUOUS QUERY x AS SELECT " + text)


@quick
@given(mutated())
def test_mutated_programs(text):
    check(PROGRAM + text)


@quick
@given(st.text(max_size=60))
def test_any_text(text):
    check(text)


@quick
@given(st.text(max_size=40))
def test_any_text_in_a_body(text):
    check(PROGRAM + "CREATE CONTINUOUS QUERY x AS SELECT " + text + " FROM quotes")


def test_every_prefix_of_a_program():
    text = PROGRAM + STATEMENTS[0]
    for end in range(len(PROGRAM) - 120, len(text)):
        check(text[:end])


def test_deep_nesting():
    for depth in (10, 50, 100, 500):
        check(PROGRAM + f"CREATE CONTINUOUS QUERY x AS SELECT SUM({'(' * depth}price{')' * depth}) AS v FROM quotes;")
        check(
            PROGRAM
            + f"CREATE CONTINUOUS QUERY x AS SELECT SUM({'(' * depth}price) AS v FROM quotes COHERENCY v WITHIN 5;"
        )
        check(PROGRAM + f"CREATE CONTINUOUS QUERY x AS SELECT SUM({' + '.join(['price'] * depth)}) AS v FROM quotes;")
        check(PROGRAM + f"CREATE CONTINUOUS QUERY x AS SELECT SUM({'- ' * depth}price) AS v FROM quotes;")
        check(PROGRAM + f"CREATE CONTINUOUS QUERY x AS {'SELECT * FROM (' * depth}quotes{')' * depth};")
        check(f"CREATE STREAM s (a {'ARRAY<' * depth}INT{'>' * depth}, t INT) TIMESTAMP BY t;")
        check("(" * depth)
