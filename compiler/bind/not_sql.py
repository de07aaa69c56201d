"""SQL that sqlglot does not read: what was probably meant, at the word that is in the way."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from deadband.compiler import ast
from deadband.compiler.bind.place import span_of
from deadband.compiler.errors import DeadbandError, Span, misspelt
from deadband.grammar import CLAUSES, SQL_WORDS

__all__ = ["not_sql", "slid_clause"]

_SECOND_WORDS = ("WITHIN", "WHEN", "EVERY", "ROWS")
_STARTERS = ("CREATE", "DROP", "ALTER", "SELECT", "INSERT", "SHOW", "EXPLAIN")


def not_sql(sql: ast.Sql, tokens: list[Token], error: ParseError, clauses: dict[str, str]) -> DeadbandError:
    """sqlglot's complaint at its place, or at the word before it that was misspelt; clauses may follow the text."""
    if not tokens:
        return DeadbandError("there is no SQL here", sql.span, hint="it is read as Spark SQL")
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    at = next((i for i, t in enumerate(tokens) if t.line == line and t.col == column), len(tokens) - 1)
    found = _misspelt_start(sql, tokens) or _clause(sql, tokens, at, clauses)
    found = (
        found or _misspelt_word(sql, tokens, at) or _missing_by(sql, tokens, at) or _missing_semicolon(sql, tokens, at)
    )
    if found is not None:
        return found
    detail = _said(str(first.get("description") or error), tokens[at].text)
    return DeadbandError("this is not valid SQL", _span(sql, tokens[at]), detail=detail, hint="it is read as Spark SQL")


def slid_clause(sql: ast.Sql, tree: exp.Query) -> DeadbandError | None:
    """A clause word that became the alias of the last table: FROM t MEMORY."""
    for table in tree.find_all(exp.Table):
        alias = table.args.get("alias")
        if alias is None or alias.name.upper() not in CLAUSES:
            continue
        place = span_of(alias, sql)
        tail = sql.text[place.end - sql.span.start :]
        word = re.search(r"(\w+)\s*$", sql.text[: place.start - sql.span.start])
        if tail.strip() or (word is not None and word[1].upper() == "AS"):
            continue
        if not any(c.table.lower() == alias.name.lower() for c in tree.find_all(exp.Column)):
            return DeadbandError(
                f"{alias.name.upper()} here would be an alias of {table.name}",
                place,
                hint=f"complete the clause, for example {CLAUSES[alias.name.upper()]}; write AS for an alias",
            )
    return None


def _misspelt_start(sql: ast.Sql, tokens: list[Token]) -> DeadbandError | None:
    found = misspelt([tokens[0].text], ("SELECT", "WITH"))
    return None if found is None else _did_you_mean(sql, tokens[0], found[0])


def _clause(sql: ast.Sql, tokens: list[Token], at: int, clauses: dict[str, str]) -> DeadbandError | None:
    """A clause word, right or misspelt, near the place where sqlglot gave up."""
    for i in range(max(1, at - 3), min(len(tokens), at + 2)):
        token = tokens[i]
        word = token.text.upper()
        if word not in clauses:
            found = misspelt([word], clauses) if token.token_type == TokenType.VAR else None
            if found is None:
                continue
            return _did_you_mean(sql, token, found[0], clauses[found[0]])
        if tokens[i - 1].token_type == TokenType.COMMA:
            span = _span(sql, tokens[i - 1])
            return DeadbandError(f"unexpected , before {word}", span, hint="leave the comma out")
        for second in tokens[i + 1 : i + 4]:
            found = misspelt([second.text], _SECOND_WORDS)
            if found is not None:
                return _did_you_mean(sql, second, found[0], clauses[word])
        if word in clauses:
            return DeadbandError(
                f"{word} is not complete", _span(sql, token), hint=f"write for example {clauses[word]}"
            )
    return None


def _misspelt_word(sql: ast.Sql, tokens: list[Token], at: int) -> DeadbandError | None:
    for token in tokens[max(0, at - 1) : at + 1]:
        found = misspelt([token.text], SQL_WORDS) if token.token_type == TokenType.VAR else None
        if found is not None:
            return _did_you_mean(sql, token, found[0])
    return None


def _missing_by(sql: ast.Sql, tokens: list[Token], at: int) -> DeadbandError | None:
    before = tokens[at - 1].text.upper() if at else ""
    if before not in ("GROUP", "ORDER", "PARTITION"):
        return None
    return DeadbandError(f"unexpected {tokens[at].text}", _span(sql, tokens[at]), hint=f"write {before} BY")


def _missing_semicolon(sql: ast.Sql, tokens: list[Token], at: int) -> DeadbandError | None:
    if at == 0 or tokens[at].text.upper() not in _STARTERS:
        return None
    what = f"unexpected {tokens[at].text}"
    return DeadbandError(what, _span(sql, tokens[at]), hint="end the statement before with ;")


def _did_you_mean(sql: ast.Sql, token: Token, word: str, example: str = "") -> DeadbandError:
    hint = f"did you mean {word}? For example {example}" if example else f"did you mean {word}?"
    return DeadbandError(f"unexpected {token.text}", _span(sql, token), hint=hint)


def _said(description: str, at: str) -> str:
    """What sqlglot says, for people."""
    line = re.sub(r"\x1b\[[\d;]*m", "", description).split("\n")[0]
    if line.startswith("Invalid expression"):
        return f"unexpected {at}"
    if line.startswith("Required keyword"):
        return "an operand is missing"
    line = re.sub(r" but got <Token.*", "", line)
    line = re.sub(r"<class '[\w.]*\.(\w+)'>", r"\1", line)
    return line[:1].lower() + line[1:]


def _span(sql: ast.Sql, token: Token) -> Span:
    return sql.span.within(token.start, token.end + 1)
