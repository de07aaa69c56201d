"""Where a node of a sqlglot tree was written."""

from __future__ import annotations

import re

from sqlglot import exp

from deadband.compiler import ast
from deadband.compiler.errors import Span

__all__ = ["span_of"]

# What stands before a node's first name or literal and belongs to it; sqlglot keeps no place for keywords.
_JOIN = r"(?:(?:NATURAL|INNER|CROSS|LEFT|RIGHT|FULL|OUTER|SEMI|ANTI)\s+)*JOIN\s+"
_HEADS: dict[type, str] = {
    exp.Cast: r"\bCAST\s*\(\s*",
    exp.TryCast: r"\b(?:TRY_)?CAST\s*\(\s*",  # how sqlglot reads a Spark CAST
    exp.Case: r"\bCASE\s+(?:WHEN\s+)?",
    exp.Having: r"\bHAVING\s+",
    exp.Limit: r"\bLIMIT\s+",
    exp.Join: _JOIN,
    exp.Subquery: r"\(\s*SELECT\s+(?:DISTINCT\s+)?",
    exp.Select: r"\bSELECT\s+(?:DISTINCT\s+)?",
    exp.Not: r"\bNOT\s+",
    exp.Neg: r"-\s*",
    exp.Paren: r"\(\s*",
}
# Nodes that are seen best by a word of theirs.
_WORDS: dict[type, str] = {
    exp.Distinct: r"\bDISTINCT\b",
    exp.Union: r"\bUNION\b",
    exp.Except: r"\b(?:EXCEPT|MINUS)\b",
    exp.Intersect: r"\bINTERSECT\b",
}
_BRACKET = re.compile(r"'(?:\\[\s\S]|[^'\\])*'|\"(?:\\[\s\S]|[^\"\\])*\"|`[^`]*`|--[^\n]*|/\*[\s\S]*?\*/|[()]")


def span_of(node: exp.Expr, sql: ast.Sql) -> Span:
    """From the first to the last descendant that knows its place, with the keywords and brackets that go with them."""
    word = _WORDS.get(type(node))
    found = re.search(word, sql.text, re.I) if word is not None else None
    if found is not None:
        return sql.span.within(found.start(), found.end())
    places = [n.meta for n in node.walk() if "start" in n.meta]
    if not places:
        found = re.search(rf"\b{re.escape(node.sql('spark').removesuffix('()'))}\b(?:\s*\(\s*\))?", sql.text, re.I)
        if found is not None:
            return sql.span.within(found.start(), found.end())
        return span_of(node.parent, sql) if node.parent is not None else sql.span
    start, end = min(p["start"] for p in places), max(p["end"] for p in places) + 1
    head = _HEADS.get(type(node))
    if head is not None:
        found = re.search(f"(?:{head})$", sql.text[:start], re.I)
        start = found.start() if found else start
    found = re.match(r"\s*\(\s*\)", sql.text[end:]) if isinstance(node, exp.Func) else None  # RAND()
    end = _closed(sql.text, start, end) if found is None else end + found.end()
    if isinstance(node, exp.Case):
        found = re.match(r"\s*END\b", sql.text[end:], re.I)
        end += found.end() if found else 0
    return sql.span.within(start, end)


def _closed(text: str, start: int, end: int) -> int:
    """The end, moved behind the brackets that start..end leaves open."""
    depth = 0
    for found in _BRACKET.finditer(text, start):
        if found.start() >= end and depth <= 0:
            break
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0 and found.start() >= end:
            return found.end()
    return end
