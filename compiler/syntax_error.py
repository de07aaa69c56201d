"""Where the parser could not go on: what was probably meant, in the words of the user's mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from deadband.compiler.errors import DeadbandError, Source, Span, misspelt
from deadband.grammar import CLAUSES, SQL_WORDS, STREAM_CLAUSES

__all__ = ["BOUND_HINT", "Stuck", "syntax_error"]

BOUND_HINT = "write for example WITHIN 80 or WITHIN 0.5%"

# How terminals are called in messages; the others go by their name with spaces.
_CALLED = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "RUN": "SQL",
    "SPARK_RUN": "a statement",
    "CONDITION_RUN": "a condition",
    "BAD_BOUND": "a number",
    "DOTTED_NAME": "a name",
    "LPAR": '"("',
    "RPAR": '")"',
    "COMMA": '","',
    "SEMICOLON": "the end",
    "$END": "the end",
    "PERCENT": '"%"',
    "EQUALS": '"="',
    "SET_CLAUSE": "SET",
    "LESSTHAN": '"<"',
    "MORETHAN": '">"',
    "COLON": '":"',
    "CREATE_QUERY": "CREATE CONTINUOUS QUERY",
    "EXPLAIN_OPTIONS": '"("',
}
_QUERY_CLAUSES = {"COHERENCY", "PRECISION", "FIDELITY", "RESPONSE", "NOTIFY_WHEN", "MEMORY", "EMIT_EVERY", "INTO"}
_OF_A_STREAM = {"KEY", "TIMESTAMP_BY", "LATENESS", "SOURCE_BY", "DELETE_WHEN", "PULL_EVERY", "USING"}
_STARTERS = {"CREATE", "DROP", "ALTER", "SELECT", "SHOW", "SET", "EXPLAIN", "ANALYZE", "REFRESH", "INSERT", "WITH"}
_THING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\w+|\S")
_BRACKETS = re.compile(r"'(?:\\[\s\S]|[^'\\])*'|\"(?:\\[\s\S]|[^\"\\])*\"|`[^`]*`|--[^\n]*|/\*[\s\S]*?\*/|[();]")


@dataclass(frozen=True)
class Stuck:
    """Where the parser could not go on, and what it could have gone on with."""

    source: Source
    start: int
    expected: frozenset[str]

    @property
    def rest(self) -> str:
        return self.source.text[self.start :]

    @property
    def before(self) -> str:
        return self.source.text[: self.start].rstrip()

    @property
    def thing(self) -> str:
        """The word, string or sign that stands there; nothing at the end."""
        found = _THING.match(self.rest)
        return "" if found is None or found[0] == ";" else found[0]

    @property
    def keywords(self) -> list[str]:
        """The words that could stand here."""
        return sorted(t.replace("_", " ") for t in self.expected if t not in _CALLED and t.isupper())

    def span(self) -> Span:
        if self.thing:
            return self.source.span(self.start, self.start + len(self.thing))
        end = len(self.before)  # at the end of a text the last character is easier to see than nothing
        return self.source.span(self.start, self.start + 1) if self.rest else self.source.span(max(0, end - 1), end)

    def after(self, message: str, hint: str) -> DeadbandError:
        return DeadbandError(message, self.span(), hint=hint)


def syntax_error(stuck: Stuck) -> DeadbandError:
    """The first explanation that applies."""
    return next(found for explain in _EXPLANATIONS if (found := explain(stuck)) is not None)


def _unclosed_quote(stuck: Stuck) -> DeadbandError | None:
    rest, at = stuck.rest, stuck.start
    if rest.startswith("/*"):
        return DeadbandError("unclosed comment", stuck.source.span(at, at + 2), hint="end it with */")
    if rest[:1] in ("'", '"', "`") and len(stuck.thing) == 1:
        return DeadbandError(f"unclosed {rest[0]}", stuck.source.span(at, at + 1), hint=f"close it with {rest[0]}")
    return None


def _bracket(stuck: Stuck) -> DeadbandError | None:
    """A ( that is not closed before the statement ends, or a ) that closes nothing."""
    opened: list[int] = []
    for found in _BRACKETS.finditer(stuck.source.text):
        at = found.start()
        if found[0] == "(":
            opened.append(at)
        elif found[0] == ")":
            if not opened and at >= stuck.start:
                return DeadbandError("unexpected )", stuck.source.span(at, at + 1), hint="there is no ( for it")
            if opened:
                opened.pop()
        elif found[0] == ";":
            if at >= stuck.start:
                break
            opened.clear()
    if opened and opened[-1] < stuck.start:
        return DeadbandError("unclosed (", stuck.source.span(opened[-1], opened[-1] + 1), hint="close it with )")
    return None


def _misspelt_keyword(stuck: Stuck) -> DeadbandError | None:
    found = list(re.finditer(r"\w+", stuck.rest[:100]))
    if not found or found[0].start() != 0:
        return None
    meant = misspelt([w[0] for w in found], stuck.keywords, cutoff=0.65)
    if meant is None:
        return None
    phrase, which = meant
    word = found[which]
    span = stuck.source.span(stuck.start + word.start(), stuck.start + word.end())
    return DeadbandError(f"unexpected {word[0]}", span, hint=f"did you mean {phrase}?")


def _incomplete_clause(stuck: Stuck) -> DeadbandError | None:
    """A word that is a clause, were it followed by what belongs to it."""
    word = stuck.thing.upper()
    for clauses, terminals in ((CLAUSES, _QUERY_CLAUSES), (STREAM_CLAUSES, _OF_A_STREAM)):
        if word in clauses and stuck.expected & terminals:
            return stuck.after(f"{word} is not complete", f"write for example {clauses[word]}")
    return None


def _missing_bound(stuck: Stuck) -> DeadbandError | None:
    if "BAD_BOUND" not in stuck.expected:
        return None
    what = "a bound is a plain number" if stuck.thing == "(" else "a bound is missing"
    return stuck.after(what, BOUND_HINT)


def _missing_body(stuck: Stuck) -> DeadbandError | None:
    if stuck.expected == {"RUN", "STRING", "LPAR"}:
        return stuck.after("a query is missing here", "a continuous query is SELECT …, or WITH … SELECT …")
    if stuck.expected == {"CONDITION_RUN", "STRING", "LPAR"}:
        return stuck.after("a condition is missing here", f"write for example {STREAM_CLAUSES['DELETE']}")
    return None


def _after_a_bound(stuck: Stuck) -> DeadbandError | None:
    if not re.search(r"\bWITHIN\s+[\d.]+\s*[%,]?$", stuck.before, re.I) or not stuck.thing:
        return None
    if stuck.thing.upper() == "PERCENT":
        return stuck.after(f"unexpected {stuck.thing}", "write % for percent")
    if stuck.thing[0].isalpha():
        return None
    return stuck.after(f"unexpected {stuck.thing}", "a bound is one number, for example 80, 1000 or 0.5%")


def _missing_semicolon(stuck: Stuck) -> DeadbandError | None:
    if "SEMICOLON" not in stuck.expected or stuck.thing.upper() not in _STARTERS:
        return None
    return stuck.after(f"a ; is missing before {stuck.thing}", "end the statement before with ;")


def _body_after_clauses(stuck: Stuck) -> DeadbandError | None:
    word = stuck.thing.upper()
    if not stuck.expected >= {"COHERENCY", "SEMICOLON"} or word not in SQL_WORDS:
        return None
    return stuck.after(f"{word} after a clause", f"the clauses come last: write {word} … before them")


def _missing_as(stuck: Stuck) -> DeadbandError | None:
    if stuck.expected != {"AS"}:
        return None
    if re.search(r"\b(?:QUERY|EXISTS)\s+AS$", stuck.before, re.I):
        return stuck.after("the query has no name", "write CREATE CONTINUOUS QUERY name AS SELECT …")
    if re.match(r"[-.]", stuck.thing):
        return _not_a_name(stuck)
    return stuck.after(
        f"AS is missing before {stuck.thing or 'the end'}", "write CREATE CONTINUOUS QUERY name AS SELECT …"
    )


def _not_a_name(stuck: Stuck) -> DeadbandError | None:
    glued = re.match(r"[-.$]\w", stuck.rest) and re.search(r"\w$", stuck.source.text[: stuck.start])
    if glued and re.search(r"=\s*\w+$", stuck.before):
        return stuck.after(f"unexpected {stuck.thing}", "put the value into quotes")
    if not glued and not ("NAME" in stuck.expected and re.match(r"['\"\d]", stuck.thing)):
        return None
    return stuck.after(f"unexpected {stuck.thing}", "a name is a word, or anything in backticks, like `my-name`")


def _missing_part(stuck: Stuck) -> DeadbandError | None:
    """One thing is expected, and this is how it looks."""
    looks = {
        "INTERVAL": "INTERVAL '2' SECONDS",
        "ROWS": CLAUSES["MEMORY"],
        "SET_CLAUSE": "ALTER CONTINUOUS QUERY total SET COHERENCY value WITHIN 5",
        "SERVES": "CREATE AGGREGATOR d1 SERVES quotes ('S1' WITHIN 0.5)",
    }
    found = [looks[t] for t in stuck.expected if t in looks]
    if len(stuck.expected) > 1 or not found:
        return None
    what = f"unexpected {stuck.thing}" if stuck.thing else "unexpected end"
    return DeadbandError(what, stuck.span(), detail=_expected(stuck), hint=f"write for example {found[0]}")


def _anything_else(stuck: Stuck) -> DeadbandError:
    what = f"unexpected {stuck.thing}" if stuck.thing else "unexpected end"
    return DeadbandError(what, stuck.span(), detail=_expected(stuck), hint=_general_hint(stuck))


# In this order: the first that applies explains.
_EXPLANATIONS: tuple[Callable[[Stuck], DeadbandError | None], ...] = (
    _unclosed_quote,
    _bracket,
    _missing_bound,
    _missing_body,
    _misspelt_keyword,
    _incomplete_clause,
    _after_a_bound,
    _missing_semicolon,
    _body_after_clauses,
    _missing_as,
    _not_a_name,
    _missing_part,
    _anything_else,
)


def _expected(stuck: Stuck) -> str | None:
    names = {_called(t) for t in stuck.expected - _QUERY_CLAUSES - _OF_A_STREAM if not t.startswith("__")}
    if stuck.expected & (_QUERY_CLAUSES | _OF_A_STREAM):
        names.add("a clause")
    if not names:
        return None
    words = sorted(names)
    return f"expected {words[0] if len(words) == 1 else ', '.join(words[:-1]) + ' or ' + words[-1]}"


_LOOKS_LIKE = (  # what stands before the place, and what should stand there
    (r"INTERVAL$", "INTERVAL '2' SECONDS"),
    (r"OPTIONS\s*\([^()]*$", "OPTIONS (path 'out', header 'true')"),
    (r"\)[^()]*\bKEY$", STREAM_CLAUSES["KEY"]),
    (r"SOURCE\s+BY$", STREAM_CLAUSES["SOURCE"]),
    (r"TIMESTAMP\s+BY$", STREAM_CLAUSES["TIMESTAMP"]),
    (r"DECIMAL\s*\($", "DECIMAL(10, 2)"),
    (r"WITHIN\s[^,;]*,$", "COHERENCY a WITHIN 1, b WITHIN 2"),
)


def _general_hint(stuck: Stuck) -> str | None:
    for before, example in _LOOKS_LIKE:
        if re.search(before, stuck.before, re.I):
            return f"write for example {example}"
    if stuck.expected >= {"COHERENCY", "SEMICOLON"} or stuck.expected >= _QUERY_CLAUSES:
        return f"the clauses are {', '.join(c for c in CLAUSES)}"
    if stuck.expected & _OF_A_STREAM:
        return f"the clauses are {', '.join(t.replace('_', ' ') for t in sorted(_OF_A_STREAM))}"
    head = re.search(r"(?:^|;)\s*(\w+(?:\s+[A-Z]+)*)[^;]*$", stuck.before)
    examples = {
        "CREATE STREAM": "CREATE STREAM s (key STRING, value DOUBLE, at TIMESTAMP) KEY (key) TIMESTAMP BY at",
        "CREATE CONTINUOUS QUERY": "CREATE CONTINUOUS QUERY name AS SELECT …",
        "ALTER CONTINUOUS QUERY": "ALTER CONTINUOUS QUERY name SET one clause",
        "EXPLAIN": "EXPLAIN SELECT …, EXPLAIN (FORMAT JSON) CONTINUOUS QUERY name",
        "SET": "SET split = 'min-cost'",
    }
    for start, example in examples.items():
        if head is not None and head[1].upper().startswith(start):
            return f"write for example {example}"
    return None


def _called(terminal: str) -> str:
    return _CALLED.get(terminal, terminal.replace("_", " "))
