"""The Deadband grammar: one Lark file and the function that loads it."""

from functools import cache
from pathlib import Path

from lark import Lark

__all__ = ["CLAUSE_WORDS", "STATEMENT_HEADS", "load_parser"]

# What a user may have meant, for "did you mean" hints.
CLAUSE_WORDS = ("COHERENCY", "PRECISION", "FIDELITY", "RESPONSE", "NOTIFY", "MEMORY", "EMIT", "INTO", "WITHIN")
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
    "SHOW SETTINGS",
    "SET",
    "EXPLAIN",
)

_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*[\s\S]*?\*/)+"
_NAME = r"(?:[^\W\d]\w*|`(?:[^`]|``)+`)"
_STARTS_WITHIN = r"(?=«gap»(?:«name»«gap»)?WITHIN(?:«gap»)(?!FROM\b)[^\s,;)])"
_QUERY_CLAUSE = (
    r"(?:(?:COHERENCY|PRECISION)«starts_within»"
    r"|FIDELITY«gap»[.\d]|MEMORY«gap»[.\d]|RESPONSE«gap»WITHIN\b|NOTIFY«gap»WHEN\b|EMIT«gap»EVERY\b"
    r"|INTO«gap»(?!(?:FROM|AS)\b)«name»)"
)
_STREAM_CLAUSE = (
    r"(?:KEY(?:«gap»)?\(|TIMESTAMP«gap»BY\b|LATENESS«gap»INTERVAL\b|SOURCE«gap»BY\b|DELETE«gap»WHEN\b"
    r"|PULL«gap»EVERY\b|USING«gap»«name»|OPTIONS(?:«gap»)?\()"
)
# A word that starts no clause, a quoted name, or an operator that starts neither string, group nor comment.
_CHUNK = r"(?:(?!{clause})(?![rR]['\"])\w+|`(?:[^`]|``)*`|[^\w\s();'\"`/-]|-(?!-)|/(?!\*))"
# In this order: a pattern may contain the marks below it.
_PATTERNS = {
    "«chunk»": _CHUNK.replace("{clause}", _QUERY_CLAUSE),
    "«condition_chunk»": _CHUNK.replace("{clause}", _STREAM_CLAUSE),
    "«any_chunk»": _CHUNK.replace("(?!{clause})", ""),
    "«starts_within»": _STARTS_WITHIN,
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
