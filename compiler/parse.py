"""Text to statements: the Lark tree becomes the classes of ast.py, and Lark's errors become ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from deadband.compiler import ast
from deadband.compiler.errors import DeadbandError, Source, Span, did_you_mean
from deadband.grammar import load_parser
from lark import Token, Transformer, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import UnexpectedEOF, VisitError

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


def parse(text: str, name: str = "<sql>") -> list[ast.Statement]:
    """The statements of a text, in order."""
    source = Source(name, text)
    try:
        tree = load_parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(source, error) from None
    except RecursionError:
        raise DeadbandError("nested too deeply", source.span(0, 1)) from None
    try:
        return _Build(source).transform(tree)
    except VisitError as error:
        raise error.orig_exc from None


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

    def names(self, meta: Any, children: list) -> tuple[ast.Name, ...]:
        return tuple(children)

    def body(self, meta: Any, children: list) -> ast.Sql:
        span = self._span(meta)
        return ast.Sql(span.text, span)

    condition = body
    type = body

    def interval(self, meta: Any, children: list) -> ast.Interval:
        _, amount, unit = children
        span = self._span(meta)
        text = _unquote(amount) if amount.type == "STRING" else str(amount)
        found = re.fullmatch(r"\s*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([a-z]*)\s*", text, re.I)
        try:
            number = float(found[1]) if found else math.nan
        except ValueError:
            number = math.nan
        word = str(unit or (found[2] if found else "")).lower()
        if word.removesuffix("s") not in SECONDS:
            hint = "write for example INTERVAL '2' SECONDS; units are microseconds to weeks"
            raise DeadbandError(f"unknown unit in an interval: {word or 'none'}", span, hint=hint)
        if not (math.isfinite(number) and number >= 0):
            raise DeadbandError("an interval must be a number, zero or more", span, hint="for example INTERVAL '2' SECONDS")
        return ast.Interval(number * SECONDS[word.removesuffix("s")], f"{number:.12g} {word}", span)

    def bound(self, meta: Any, children: list) -> ast.Bound:
        span, number = self._span(meta), children[0]
        if number.type == "BAD_BOUND":
            if re.fullmatch(r"-[\d.]+(e[+-]?\d+)?%?", number, re.I):
                raise DeadbandError(f"a bound cannot be negative: {number}", span, hint="write the distance allowed, zero or more")
            raise DeadbandError(
                f"a bound must be a number: {number}", span, hint="write for example WITHIN 80 or WITHIN 0.5%"
            )
        amount, percent = float(number), children[1] is not None
        if not math.isfinite(amount):
            raise DeadbandError(f"a bound must be finite: {number}", span)
        return ast.Bound(amount / 100 if percent else amount, percent, span)

    def option(self, meta: Any, children: list) -> tuple[str, str]:
        key, _, value = children
        return _unquote(key) if key.type == "STRING" else key.replace("`", ""), _text_of(value)

    def options(self, meta: Any, children: list) -> tuple[tuple[str, str], ...]:
        return tuple(children[1:])

    def using(self, meta: Any, children: list) -> ast.Using:
        return ast.Using(children[1], children[2] or (), self._span(meta))

    # CREATE STREAM

    def create_stream(self, meta: Any, children: list) -> ast.CreateStream:
        _, if_not_exists, name, *rest = children
        columns = tuple(c for c in rest if isinstance(c, ast.Column))
        clauses = {c.data: c for c in self._once(c for c in rest if isinstance(c, Tree))}

        def of(clause: str) -> Any:
            return clauses[clause].children[1] if clause in clauses else None

        using = [c for c in rest if isinstance(c, ast.Using)]
        if len(using) > 1:
            raise DeadbandError("USING is given twice", using[1].span, hint="keep one of them")
        return ast.CreateStream(
            name=name,
            columns=columns,
            key=of("key") or (),
            timestamp_by=of("timestamp_by"),
            lateness=of("lateness"),
            source_by=of("source_by") or (),
            delete_when=of("delete_when"),
            pull_every=of("pull_every"),
            using=using[0] if using else None,
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
                word = clause.span.text.split()[0].upper()
                raise DeadbandError(f"{word} is given twice", clause.span, hint="each clause may stand once; keep one of them")
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
            raise DeadbandError("FIDELITY is a percentage", span, hint=f"write FIDELITY {number}%")
        if not 0 < share <= 1:
            raise DeadbandError(
                f"FIDELITY must be above 0% and at most 100%: {number}%", span, hint="for example FIDELITY 98%"
            )
        if window is not None and window.seconds <= 0:
            raise DeadbandError("the window of FIDELITY must be longer than nothing", window.span)
        return ast.Fidelity(share, window, span)

    def response(self, meta: Any, children: list) -> ast.Response:
        return ast.Response(children[2], self._span(meta))

    def notify(self, meta: Any, children: list) -> ast.Notify:
        return ast.Notify(children[1], self._span(meta))

    def memory(self, meta: Any, children: list) -> ast.Memory:
        span = self._span(meta)
        if not children[1].isdigit() or int(children[1]) < 1:
            raise DeadbandError(f"MEMORY takes a whole number of rows, one or more: {children[1]}", span)
        return ast.Memory(int(children[1]), span)

    def emit_every(self, meta: Any, children: list) -> ast.EmitEvery:
        if children[1].seconds <= 0:
            raise DeadbandError("EMIT EVERY needs an interval longer than nothing", children[1].span)
        return ast.EmitEvery(children[1], self._span(meta))

    def into(self, meta: Any, children: list) -> ast.Into:
        return ast.Into(children[1], children[2] or (), self._span(meta))

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
            if option.children[0].type == "VERBOSE":
                verbose = True
                continue
            word = option.children[1]
            format = word.upper()
            if format not in EXPLAIN_FORMATS:
                raise DeadbandError(
                    f"unknown EXPLAIN format: {word}", self._token_span(word), hint=f"use one of {', '.join(EXPLAIN_FORMATS)}"
                )
        return ast.Explain(children[-1], analyze, format, verbose, self._span(meta))

    def spark_sql(self, meta: Any, children: list) -> ast.SparkSql:
        span = self._span(meta)
        return ast.SparkSql(ast.Sql(span.text, span), span)

    # helpers

    def _span(self, meta: Any) -> Span:
        return Span(self.source, meta.start_pos, meta.end_pos)

    def _token_span(self, token: Token) -> Span:
        return Span(self.source, token.start_pos, token.end_pos)

    def _once(self, clauses: Iterable[Tree]) -> list[Tree]:
        found: dict[str, Tree] = {}
        for clause in clauses:
            if clause.data in found:
                word = clause.children[0].upper()
                span = self._token_span(clause.children[0])
                raise DeadbandError(f"{' '.join(word.split())} is given twice", span, hint="keep one of them")
            found[clause.data] = clause
        return list(found.values())


def _unquote_name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else str(text)


def _unquote(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]
    quote = text[0]
    return re.sub(r"\\(.)", r"\1", text[1:-1].replace(quote * 2, quote), flags=re.S)


def _text_of(token: Token) -> str:
    return _unquote(token) if token.type == "STRING" else str(token)


# ---------------------------------------------------------------- Lark's errors to ours

# How terminals are called in messages; the others go by their name with spaces.
_CALLED = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "RUN": "SQL",
    "SPARK_RUN": "a statement",
    "CONDITION_RUN": "a condition",
    "BAD_BOUND": "a bound",
    "OPTION_KEY": "an option name",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "SEMICOLON": ";",
    "$END": "the end",
    "PERCENT": "%",
    "EQUALS": "=",
    "SET_CLAUSE": "SET",
    "LESSTHAN": "<",
    "MORETHAN": ">",
    "COLON": ":",
    "CREATE_QUERY": "CREATE CONTINUOUS QUERY",
    "EXPLAIN_OPTIONS": "(",
}


def _syntax_error(source: Source, error: UnexpectedInput) -> DeadbandError:
    text = source.text
    if isinstance(error, UnexpectedToken):
        at_end = error.token.type == "$END"
        start = len(text.rstrip()) if at_end else error.token.start_pos
        end = start + 1 if at_end else error.token.end_pos
        expected = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        start, end, at_end = error.pos_in_stream, error.pos_in_stream + 1, False
        expected = set(error.allowed or ())
    else:
        assert isinstance(error, UnexpectedEOF)
        start, end, at_end, expected = len(text), len(text), True, set(error.expected)

    rest = text[start:]
    if rest[:1] in ("'", '"', "`") and rest.find(rest[0], 1) < 0:
        return DeadbandError(f"unclosed {rest[0]}", source.span(start, start + 1), hint="close the quote")
    if rest.startswith("/*"):
        return DeadbandError("unclosed comment", source.span(start, start + 2), hint="end it with */")

    opened = _last_open_bracket(error)
    if opened is not None and (at_end or "RPAR" in expected) and (at_end or _ends_a_group(rest)):
        return DeadbandError("unclosed (", source.span(opened, opened + 1), hint="close it with )")
    if rest.startswith(")"):
        return DeadbandError("unexpected )", source.span(start, start + 1), hint="there is no ( for it")

    found = re.match(r"\w+", rest)
    word = found[0] if found else rest[:1]
    span = source.span(start, start + len(word)) if word else source.span(start, end)
    keywords = sorted(_called(t) for t in expected if t not in ("COMMENT",) and not t.startswith("__"))
    detail = f"expected {_one_of(keywords)}" if keywords else None
    what = "unexpected end" if at_end or not word else f"unexpected {word}"
    return DeadbandError(what, span, detail=detail, hint=did_you_mean(word, keywords) if word else None)


def _last_open_bracket(error: UnexpectedInput) -> int | None:
    """Where the innermost ( that the parser has not closed stands."""
    state = getattr(error, "state", None)
    stack = getattr(state, "value_stack", None)
    if stack is None:
        interactive = getattr(error, "interactive_parser", None)
        stack = interactive.parser_state.value_stack if interactive is not None else []
    opened = [t.start_pos for t in stack if isinstance(t, Token) and t.type in ("LPAR", "EXPLAIN_OPTIONS")]
    return opened[-1] if opened else None


def _ends_a_group(rest: str) -> bool:
    """Only a clause or the statement's end stops a run inside a group."""
    return rest.startswith(";") or re.match(r"\w", rest) is not None


def _called(terminal: str) -> str:
    return _CALLED.get(terminal, terminal.replace("_", " "))


def _one_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
