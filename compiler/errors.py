"""DeadbandError: what users see when something they wrote cannot work, with the place it points at."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["DeadbandError", "Source", "Span", "did_you_mean", "misspelt", "nearest"]


@dataclass(frozen=True)
class Source:
    """A text and the name it goes by in messages."""

    name: str
    text: str

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, end)


@dataclass(frozen=True)
class Span:
    """Characters start..end (end excluded) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - self.source.text.rfind("\n", 0, self.start)

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def within(self, start: int, end: int) -> Span:
        """The part start..end, counted from the beginning of this span."""
        return Span(self.source, self.start + start, self.start + end)

    def __repr__(self) -> str:
        return f"Span({self.source.name}:{self.line}:{self.column})"

    def picture(self) -> str:
        """The source line with a caret under the span."""
        text = self.source.text
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.start)
        line = text[first : last if last >= 0 else len(text)].rstrip()
        start, end = self.start - first, min(self.end - first, len(line))
        if len(line) > 2 * _AROUND:
            left, right = max(0, start - _AROUND), start + _AROUND
            line = ("…" if left else "") + line[left:right] + ("…" if right < len(line) else "")
            start, end = start - left + (left > 0), min(end, right) - left + (left > 0)
        pad = "".join("\t" if c == "\t" else " " * _columns(c) for c in line[:start])
        carets = "^" * max(1, sum(_columns(c) for c in line[start:end]))
        return f"  | {line}\n  | {pad}{carets}"


_AROUND = 100  # characters of a long line that are shown on either side


def _columns(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class DeadbandError(Exception):
    """A mistake in a statement, in data or in how Deadband is used: what, where, why, and what would work."""

    def __init__(self, message: str, span: Span | None = None, detail: str | None = None, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.span = span
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = []
        if self.span is None:
            lines.append(self.message)
        else:
            span = self.span
            lines.append(f"{span.source.name}:{span.line}:{span.column}: {self.message}")
            lines.append(span.picture())
        if self.detail:
            lines.append(f"  = {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The candidates most like the word, best first, compared without case."""
    by_lower = {c.lower(): c for c in candidates}
    return [by_lower[m] for m in difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=cutoff)]


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """A hint that names the nearest candidates, or None."""
    found = nearest(word, candidates)
    return f"did you mean {' or '.join(found)}?" if found else None


def misspelt(words: Sequence[str], phrases: Iterable[str], cutoff: float = 0.75) -> tuple[str, int] | None:
    """The phrase that the words begin with, misspelt, and which of its words is the first that differs."""
    best, found = cutoff, None
    for phrase in phrases:
        parts = phrase.split()
        likeness = [difflib.SequenceMatcher(None, w.upper(), p).ratio() for w, p in zip(words, parts, strict=False)]
        if len(likeness) < len(parts) or min(likeness) == 1 or min(likeness) < 0.65:
            continue
        score = sum(likeness) / len(likeness)
        if score > best or (found is None and score == best):
            best, found = score, (phrase, next(i for i, x in enumerate(likeness) if x < 1))
    return found
