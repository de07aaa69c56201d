"""Text to statements: the Lark tree becomes the classes of ast.py, and Lark's errors become ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lark import Token, Transformer, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import UnexpectedEOF, VisitError

from deadband.compiler import ast
from deadband.compiler.errors import DeadbandError, Source, Span, did_you_mean
from deadband.compiler.syntax_error import BOUND_HINT, Stuck, syntax_error
from deadband.grammar import CLAUSES, load_parser

__all__ = ["parse"]

SECONDS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
}
EXPLAIN_FORMATS = ("TEXT", "JSON", "MERMAID", "HTML")

_INTERVAL_HINT = "write for example INTERVAL '2' SECONDS; units are microseconds to weeks"
_PARTS = re.compile(r"([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([a-z]+)", re.I)  # of '1 hour 30 minutes'


def parse(text: str, name: str = "<sql>") -> list[ast.Statement]:
    """The statements of a text, in order."""
    source = Source(name, text)
    try:
        tree = load_parser().parse(text)
    except UnexpectedInput as error:
        raise syntax_error(_stuck(source, error)) from None
    try:
        return _Build(source).transform(tree)
    except RecursionError:
        raise _too_deep(source) from None
    except VisitError as error:
        raise (_too_deep(source) if isinstance(error.orig_exc, RecursionError) else error.orig_exc) from None


# ---------------------------------------------------------------- tree to ast


@v_args(meta=True)
class _Build(Transformer):
    """One method per rule that has a class; the others stay lists of their children."""

    def __init__(self, source: Source):
        super().__init__()
        self.source = source

    def start(self, meta: Any, children: list) -> list[ast.Statement]:
        return [c for c in children if c is not None]

    # names, values, SQL text

    def name(self, meta: Any, children: list) -> ast.Name:
        return ast.Name(_unquote_name(children[0]), self._span(meta))

    def table(self, meta: Any, children: list) -> ast.Name:
        parts = re.findall(r"`(?:[^`]|``)+`|[^.`]+", children[0])
        return ast.Name(".".join(_unquote_name(p) for p in parts), self._span(meta))

    def names(self, meta: Any, children: list) -> tuple[ast.Name, ...]:
        return tuple(children)

    def body(self, meta: Any, children: list) -> ast.Sql:
        span = self._span(meta)
        return ast.Sql(span.text, span)

    condition = body
    type = body

    def interval(self, meta: Any, children: list) -> ast.Interval:
        _, amount, unit = children
        text = _text_of(amount)
        parts = [(text, str(unit))] if unit is not None else _PARTS.findall(text)
        if not parts or (unit is None and _PARTS.sub("", text).strip(" ,")):
            missing = re.fullmatch(r"\s*[\d.]+\s*", text) is not None
            what = "an interval needs a unit" if missing else f"an interval must be a number and a unit: {text}"
            raise DeadbandError(what, self._span(meta), hint=_INTERVAL_HINT)
        seconds = 0.0
        for number, word in parts:
            seconds += self._amount(number, amount) * self._seconds_in(word, unit or amount)
        if not math.isfinite(seconds):
            raise DeadbandError("an interval must be finite", self._token_span(amount), hint=_INTERVAL_HINT)
        return ast.Interval(seconds, " ".join(f"{float(n):.12g} {w.lower()}" for n, w in parts), self._span(meta))

    def _amount(self, text: str, token: Token) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not number >= 0:
            what = "an interval cannot be negative" if number < 0 else "an interval must be a number"
            raise DeadbandError(f"{what}: {text.strip()}", self._token_span(token), hint=_INTERVAL_HINT)
        return number

    def _seconds_in(self, word: str, token: Token) -> float:
        unit = word.lower().removesuffix("s")
        if unit in ("month", "quarter", "year"):
            raise DeadbandError(
                f"a {unit} has no fixed length", self._token_span(token), hint="write it in days or weeks"
            )
        if unit not in SECONDS:
            hint = did_you_mean(word, (f"{u}s".upper() for u in SECONDS)) or _INTERVAL_HINT
            raise DeadbandError(f"unknown unit {word}", self._token_span(token), hint=hint)
        return SECONDS[unit]

    def bound(self, meta: Any, children: list) -> ast.Bound:
        span, number = self._span(meta), children[0]
        if number.type == "BAD_BOUND":
            text = re.sub(r"\s+", "", number)
            if re.fullmatch(r"-[\d.]+(e[+-]?\d+)?%?", text, re.I):
                raise DeadbandError(
                    f"a bound cannot be negative: {text}", span, hint="write the distance allowed, zero or more"
                )
            if re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.I):
                raise DeadbandError(f"a bound must be finite: {text}", span, hint=BOUND_HINT)
            raise DeadbandError(f"a bound must be a number: {text}", span, hint=BOUND_HINT)
        amount, percent = float(number), children[1] is not None
        if not math.isfinite(amount):
            raise DeadbandError(f"a bound must be finite: {number}", span, hint=BOUND_HINT)
        return ast.Bound(amount / 100 if percent else amount, percent, span)

    def option(self, meta: Any, children: list) -> ast.Option:
        key, _, value = children
        name = _unquote(key) if key.type == "STRING" else key.replace("`", "")
        return ast.Option(ast.Name(name, self._token_span(key)), _text_of(value), self._token_span(value))

    def option_list(self, meta: Any, children: list) -> tuple[ast.Option, ...]:
        found: dict[str, ast.Option] = {}
        for option in children:
            if option.name.key in found:
                what = f"option {option.name.text} is given twice"
                raise DeadbandError(what, option.name.span, hint="keep one of them")
            found[option.name.key] = option
        return tuple(found.values())

    # CREATE STREAM

    def create_stream(self, meta: Any, children: list) -> ast.CreateStream:
        _, if_not_exists, name, *rest = children
        columns = tuple(c for c in rest if isinstance(c, ast.Column))
        clauses = {c.data: c for c in self._once(c for c in rest if isinstance(c, Tree))}

        def of(clause: str) -> Any:
            return clauses[clause].children[1] if clause in clauses else None

        pull = of("pull_every")
        if pull is not None:
            if pull.seconds <= 0:
                raise DeadbandError("PULL EVERY needs an interval longer than nothing", pull.span, hint=_INTERVAL_HINT)
            pull = replace(pull, span=self._span(clauses["pull_every"].meta))

        return ast.CreateStream(
            name=name,
            columns=columns,
            key=of("key") or (),
            timestamp_by=of("timestamp_by"),
            lateness=of("lateness"),
            source_by=of("source_by") or (),
            delete_when=of("delete_when"),
            pull_every=pull,
            using=of("using"),
            options=of("options") or (),
            if_not_exists=if_not_exists is not None,
            span=self._span(meta),
        )

    def column(self, meta: Any, children: list) -> ast.Column:
        return ast.Column(*children)

    # CREATE CONTINUOUS QUERY and its clauses

    def create_query(self, meta: Any, children: list) -> ast.CreateQuery:
        head, if_not_exists, name, _, query = children
        return ast.CreateQuery(
            name, query, if_not_exists is not None, re.search(r"\bREPLACE\b", head, re.I) is not None, self._span(meta)
        )

    def query(self, meta: Any, children: list) -> ast.Query:
        body, *clauses = children
        seen: set[type] = set()
        for clause in clauses:
            if type(clause) in seen:
                word = _CLAUSE_NAMES.get(type(clause), type(clause).__name__.upper())
                raise DeadbandError(
                    f"{word} is given twice", clause.span, hint="each clause may stand once; keep one of them"
                )
            seen.add(type(clause))
        return ast.Query(body, tuple(clauses), self._span(meta))

    def within(self, meta: Any, children: list) -> ast.Within:
        column, _, bound = children
        return ast.Within(column, bound, self._span(meta))

    def coherency(self, meta: Any, children: list) -> ast.Coherency:
        return ast.Coherency(tuple(children[1:]), self._span(meta))

    def precision(self, meta: Any, children: list) -> ast.Precision:
        return ast.Precision(tuple(children[1:]), self._span(meta))

    def fidelity(self, meta: Any, children: list) -> ast.Fidelity:
        _, number, percent, _, window = children
        share, span = float(number) / 100, self._span(meta)
        if percent is None:
            likely = float(number) * 100 if float(number) <= 1 else float(number)
            raise DeadbandError("FIDELITY is a percentage", span, hint=f"write FIDELITY {likely:.12g}%")
        if not 0 < share <= 1:
            raise DeadbandError(
                f"FIDELITY must be above 0% and at most 100%: {number}%", span, hint="for example FIDELITY 98%"
            )
        if window is not None and window.seconds <= 0:
            raise DeadbandError("the window of FIDELITY must be longer than nothing", window.span, hint=_INTERVAL_HINT)
        return ast.Fidelity(share, window, span)

    def response(self, meta: Any, children: list) -> ast.Response:
        return ast.Response(children[2], self._span(meta))

    def notify(self, meta: Any, children: list) -> ast.Notify:
        return ast.Notify(children[1], self._span(meta))

    def memory(self, meta: Any, children: list) -> ast.Memory:
        span = self._span(meta)
        if not children[1].isdigit() or int(children[1]) < 1:
            what = f"MEMORY takes a whole number of rows, one or more: {children[1]}"
            raise DeadbandError(what, span, hint=f"write for example {CLAUSES['MEMORY']}")
        return ast.Memory(int(children[1]), span)

    def emit_every(self, meta: Any, children: list) -> ast.EmitEvery:
        if children[1].seconds <= 0:
            raise DeadbandError(
                "EMIT EVERY needs an interval longer than nothing", children[1].span, hint=_INTERVAL_HINT
            )
        return ast.EmitEvery(children[1], self._span(meta))

    def into(self, meta: Any, children: list) -> ast.Into:
        options = tuple((o.name.text, o.value) for o in children[3] or ())
        return ast.Into(children[1], options, self._span(meta))

    def alter_query(self, meta: Any, children: list) -> ast.AlterQuery:
        return ast.AlterQuery(children[1], children[3], self._span(meta))

    def drop(self, meta: Any, children: list) -> ast.Drop:
        head, if_exists, name = children
        kind = head.type.removeprefix("DROP_").replace("QUERY", "CONTINUOUS QUERY")
        return ast.Drop(kind, name, if_exists is not None, self._span(meta))

    # CREATE AGGREGATOR, ANALYZE

    def served(self, meta: Any, children: list) -> ast.Served:
        return ast.Served(_text_of(children[0]), children[2])

    def create_aggregator(self, meta: Any, children: list) -> ast.CreateAggregator:
        _, name, _, stream, column, *serves = children
        return ast.CreateAggregator(name, stream, column, tuple(serves), self._span(meta))

    def create_aggregators(self, meta: Any, children: list) -> ast.CreateAggregators:
        return ast.CreateAggregators(children[1], children[3], self._span(meta))

    def analyze_stream(self, meta: Any, children: list) -> ast.AnalyzeStream:
        return ast.AnalyzeStream(children[1], children[3], self._span(meta))

    # REFRESH, SHOW, SET, EXPLAIN, the rest

    def refresh_table(self, meta: Any, children: list) -> ast.RefreshTable:
        return ast.RefreshTable(children[1], self._span(meta))

    def show(self, meta: Any, children: list) -> ast.Show:
        what = children[0].type.removeprefix("SHOW_").replace("QUERIES", "CONTINUOUS QUERIES")
        return ast.Show(what, self._span(meta))

    def set_setting(self, meta: Any, children: list) -> ast.SetSetting:
        value = children[3]
        return ast.SetSetting(children[1], _text_of(value), self._token_span(value), self._span(meta))

    def explain(self, meta: Any, children: list) -> ast.Explain:
        analyze = any(isinstance(c, Token) and c.type == "ANALYZE" for c in children)
        options = [c for c in children if isinstance(c, Tree)]
        format, verbose = "TEXT", False
        for option in options:
            kind, *words = _tokens(option)
            if kind.type == "VERBOSE":
                verbose = True
                continue
            (word,) = words
            format = word.upper()
            if format not in EXPLAIN_FORMATS:
                hint = did_you_mean(word, EXPLAIN_FORMATS) or f"use one of {', '.join(EXPLAIN_FORMATS)}"
                raise DeadbandError(f"unknown EXPLAIN format: {word}", self._token_span(word), hint=hint)
        return ast.Explain(children[-1], analyze, format, verbose, self._span(meta))

    def spark_sql(self, meta: Any, children: list) -> ast.SparkSql:
        span = self._span(meta)
        return ast.SparkSql(ast.Sql(span.text, span), span)

    # helpers

    def _span(self, meta: Any) -> Span:
        return Span(self.source, meta.start_pos, meta.end_pos)

    def _token_span(self, token: Token) -> Span:
        assert token.start_pos is not None and token.end_pos is not None
        return Span(self.source, token.start_pos, token.end_pos)

    def _once(self, clauses: Iterable[Tree]) -> list[Tree]:
        found: dict[str, Tree] = {}
        for clause in clauses:
            if clause.data in found:
                word = _tokens(clause)[0]
                what = f"{' '.join(word.upper().split())} is given twice"
                raise DeadbandError(what, self._token_span(word), hint="keep one of them")
            found[clause.data] = clause
        return list(found.values())


def _tokens(tree: Tree) -> list[Token]:
    return [c for c in tree.children if isinstance(c, Token)]


def _unquote_name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else str(text)


def _unquote(text: str) -> str:
    """The characters of a string: \\n and its like as Spark reads them, a doubled quote as one."""
    if text[0] in "rR":
        return text[2:-1]
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[0][1:], found[0][1:]), text[1:-1])


_ESCAPE = re.compile(r"\\[\s\S]|''|\"\"")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "%": "\\%", "_": "\\_"}
_CLAUSE_NAMES: dict[type, str] = {ast.EmitEvery: "EMIT EVERY", ast.Notify: "NOTIFY WHEN"}


def _text_of(token: Token) -> str:
    return _unquote(token) if token.type == "STRING" else str(token)


# ---------------------------------------------------------------- Lark's errors to ours


def _stuck(source: Source, error: UnexpectedInput) -> Stuck:
    start: int | None
    expected: Iterable[str]
    if isinstance(error, UnexpectedToken):
        start = len(source.text) if error.token.type == "$END" else error.token.start_pos
        expected = error.accepts or error.expected
    elif isinstance(error, UnexpectedCharacters):
        start, expected = error.pos_in_stream, error.allowed or ()
    else:
        assert isinstance(error, UnexpectedEOF)
        start, expected = len(source.text), error.expected
    assert start is not None
    return Stuck(source, start, frozenset(expected) - {"COMMENT"})


def _too_deep(source: Source) -> DeadbandError:
    """Points at the innermost of too many brackets."""
    depth = deepest = at = 0
    for found in re.finditer(r"[(<]|[)>]", source.text):
        depth += 1 if found[0] in "(<" else -1
        if depth > deepest:
            deepest, at = depth, found.start()
    return DeadbandError("nested too deeply", source.span(at, at + 1), hint="split it with WITH …")
