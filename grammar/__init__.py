"""The Deadband grammar: one Lark file and the function that loads it."""

from functools import cache
from pathlib import Path

from lark import Lark

__all__ = ["CLAUSES", "SPARK_HEADS", "SQL_WORDS", "STATEMENT_HEADS", "STREAM_CLAUSES", "load_parser"]

# What a user may have meant, for "did you mean" hints: the words, and a clause as it should look.
CLAUSES = {
    "COHERENCY": "COHERENCY value WITHIN 80",
    "PRECISION": "PRECISION value WITHIN 5",
    "FIDELITY": "FIDELITY 98%",
    "RESPONSE": "RESPONSE WITHIN INTERVAL '12' SECONDS",
    "NOTIFY": "NOTIFY WHEN value > 100",
    "MEMORY": "MEMORY 10000 ROWS",
    "EMIT": "EMIT EVERY INTERVAL '1' MINUTE",
    "INTO": "INTO parquet OPTIONS (path 'out')",
}
STREAM_CLAUSES = {
    "KEY": "KEY (symbol)",
    "TIMESTAMP": "TIMESTAMP BY at",
    "LATENESS": "LATENESS INTERVAL '2' SECONDS",
    "SOURCE": "SOURCE BY (exchange)",
    "DELETE": "DELETE WHEN price IS NULL",
    "PULL": "PULL EVERY INTERVAL '1' SECOND",
    "USING": "USING parquet OPTIONS (path 'data')",
    "OPTIONS": "USING parquet OPTIONS (path 'data')",
}
STATEMENT_HEADS = (
    "CREATE STREAM",
    "CREATE CONTINUOUS QUERY",
    "CREATE AGGREGATOR",
    "CREATE AGGREGATORS FOR",
    "ANALYZE STREAM",
    "ALTER CONTINUOUS QUERY",
    "DROP CONTINUOUS QUERY",
    "DROP STREAM",
    "DROP AGGREGATOR",
    "REFRESH TABLE",
    "SHOW CONTINUOUS QUERIES",
    "SHOW STREAMS",
    "SHOW AGGREGATORS",
    "SHOW STATISTICS",
    "SHOW SETTINGS",
    "SET",
    "EXPLAIN",
)
SPARK_HEADS = (
    "SELECT",
    "WITH",
    "CREATE TABLE",
    "CREATE VIEW",
    "CREATE DATABASE",
    "CREATE SCHEMA",
    "CREATE FUNCTION",
    "DROP TABLE",
    "DROP VIEW",
    "ALTER TABLE",
    "INSERT INTO",
    "DESCRIBE",
    "SHOW TABLES",
    "CACHE TABLE",
    "USE",
)
SQL_WORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "JOIN", "UNION", "LIMIT", "BETWEEN", "FILTER")

# Words that no name between a clause and WITHIN, and no sink of INTO, may have without backticks.
_RESERVED = (
    "AND|ANTI|AS|ASC|BETWEEN|BY|CASE|CROSS|DESC|DISTINCT|DISTRIBUTE|ELSE|END|EXCEPT|EXISTS|FROM|FULL|GROUP|HAVING|ILIKE"
    "|IN|INNER|INTERSECT|IS|JOIN|LATERAL|LEFT|LIKE|LIMIT|MINUS|NATURAL|NOT|NULLS|OFFSET|ON|OR|ORDER|OUTER|PIVOT|QUALIFY"
    "|RIGHT|RLIKE|SELECT|SEMI|SORT|TABLESAMPLE|THEN|UNION|USING|WHEN|WHERE|WINDOW|WITH"
)
# What SQL wants an operand or a name after: the next word is none of our clauses, whatever it is called.
_OPERAND_NEXT = (
    r"(?:\b(?:AND|AS|BETWEEN|BY|CASE|DISTINCT|ELSE|FROM|HAVING|ILIKE|IN|IS|JOIN|LIKE|NOT|ON|OR|QUALIFY|RLIKE|SELECT|THEN"
    r"|WHEN|WHERE)«gap»|(?:[,=<>+*%|&^~!.]|-(?!-)|/(?!\*))(?:«gap»)?)"
)
_WORDS = "|".join(CLAUSES)

_GAP = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)+"  # a comment ends at its first */, however one backtracks
_NAME = r"(?:[^\W\d]\w*|`(?:[^`]|``)+`)"
_THEN_BOUNDS = (
    rf"(?=«gap»(?:(?!(?:{_RESERVED})\b)«name»«gap»WITHIN\b|WITHIN«gap»(?!(?:{_RESERVED}|{_WORDS})\b)[^\s,;)]))"
)
_THEN_NUMBER = r"(?=«gap»\.?\d)"
_THEN_INTERVAL = r"(?=«gap»(?:INTERVAL\b|['\"\d]))"
# A WHEN whose THEN comes first belongs to a CASE around it.
_THEN_CONDITION = r"\b(?!(?:'[^']*'|\"[^\"]*\"|(?!\b(?:CASE|THEN)\b)[^;'\"])*\bTHEN\b)"
_THEN_SINK = (
    rf"(?=«gap»(?!(?:{_RESERVED})\b)«name»(?:«gap»)?(?:;|\Z|OPTIONS(?:«gap»)?\(|(?:COHERENCY|PRECISION)«then bounds»"
    r"|(?:FIDELITY|MEMORY)«then number»|RESPONSE\b|NOTIFY\b|EMIT\b|INTO\b))"
)
_CLAUSE = (
    r"(?:(?:COHERENCY|PRECISION)«then bounds»|(?:FIDELITY|MEMORY)«then number»|RESPONSE«gap»WITHIN«then interval»"
    r"|NOTIFY«gap»WHEN«then condition»|EMIT«gap»EVERY«then interval»|INTO«then sink»)"
)
_STREAM_CLAUSE = (
    r"(?:KEY(?:«gap»)?\(|TIMESTAMP«gap»BY\b|LATENESS«gap»INTERVAL\b|SOURCE«gap»BY\b|DELETE«gap»WHEN\b"
    r"|PULL«gap»EVERY\b|USING«gap»«name»|OPTIONS(?:«gap»)?\()"
)
# A word that starts no clause, a quoted name, or an operator that starts neither string, group nor comment.
_ANY_CHUNK = r"(?:(?!r['\"])\w+|`(?:[^`]|``)*`|[^\w\s();'\"`/-]|-(?!-)|/(?!\*))"


def _chunk(clause: str, words: str) -> str:
    # the cheap tests of one character come first: most words are neither
    first = "".join(sorted({w[0] for w in words.split("|")}))
    operand = rf"(?=[ABCDEFHIJLNOQRSTW,=<>+*%|&^~!./-]){_OPERAND_NEXT}(?:{words})\b"
    return rf"(?:{operand}|(?:(?![{first}])|(?!{clause})){_ANY_CHUNK})"


# In this order: a pattern may contain the marks below it.
_PATTERNS = {
    "«chunk»": _chunk("«clause»", _WORDS),
    "«condition chunk»": _chunk(_STREAM_CLAUSE, "|".join(STREAM_CLAUSES)),
    "«any chunk»": _ANY_CHUNK,
    "«clause»": _CLAUSE,
    "«then sink»": _THEN_SINK,
    "«then condition»": _THEN_CONDITION,
    "«then interval»": _THEN_INTERVAL,
    "«then number»": _THEN_NUMBER,
    "«then bounds»": _THEN_BOUNDS,
    "«name»": _NAME,
    "«gap»": _GAP,
}


@cache
def load_parser() -> Lark:
    """The LALR parser of the language, built once a process."""
    grammar = (Path(__file__).parent / "deadband.lark").read_text(encoding="utf-8")
    _, rules = grammar.split("\n\n", 1)  # the legend spells the marks out
    for mark, pattern in _PATTERNS.items():
        rules = rules.replace(mark, pattern.replace("/", r"\/"))
    return Lark(rules, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True)
