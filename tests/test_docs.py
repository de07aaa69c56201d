"""README.md and docs/*.md are true: every sql and python block runs, and prints what the text block right after it shows.

The blocks of a page run in order, in one namespace and on one connection, `db`. A sql block prints what the shell would,
a sh block runs its lines that begin with `deadband`, and `make run` where its output is shown. An error is told by
its message, and only where a text block shows it. In a text block `…` stands for anything in a line, and alone on a line
for any lines. `pytest --rewrite` writes the text blocks that no longer fit: read the diff.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest
from click.testing import CliRunner
from lark import Token, Tree

import deadband
from deadband.cli import main
from deadband.compiler.parse import parse
from deadband.grammar import load_parser
from deadband.session import execute

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGE = ROOT / "docs" / "language.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    shown: str | None  # by the text block right after it
    place: tuple[int, int]  # of that text in the page


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page; a text block belongs to the block before it when nothing stands between them."""
    found = list(FENCE.finditer(text))
    for block, after in zip(found, [*found[1:], None]):
        if block[1] in ("", "text"):
            continue
        shown, place = None, (0, 0)
        if after is not None and after[1] == "text" and not text[block.end() : after.start()].strip():
            shown, place = after[2], after.span(2)
        yield Block(block[1], block[2], text.count("\n", 0, block.start()) + 1, shown, place)


# ---------------------------------------------------------------- running


class Page:
    """The namespace and connection that the blocks of a page share."""

    def __init__(self, spark, folder: Path):
        self._spark, self._folder = spark, folder
        self._names: dict = {"__name__": "page", "deadband": deadband, "pd": pd}

    def run(self, block: Block) -> str:
        """What a block prints. Paths under out/ are put into a folder of the page."""
        code = re.sub(r"\bout/", f"{self._folder}/out/", block.code)
        if block.shown is not None:
            code = re.sub(r"^make run$", "deadband run examples/portfolio.sql", code, flags=re.M)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                self.RUN[block.language](self, code)
            except deadband.DeadbandError as error:
                if block.shown is None:
                    raise
                print(error)
        lines = printed.getvalue().replace(f"{self._folder}/", "").split("\n")
        return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"

    def sql(self, code: str) -> None:
        db = self._names.setdefault("db", None) or deadband.connect()
        self._names["db"] = db
        for statement in parse(code):
            execute(db, statement)

    def python(self, code: str) -> None:
        exec(compile(code, "<page>", "exec"), self._names)

    def sh(self, code: str) -> None:
        for line in code.replace("\\\n", " ").split("\n"):
            words = shlex.split(line, comments=True)
            if words and words[0] == "deadband":
                done = CliRunner().invoke(main, words[1:], obj=self._spark.newSession(), catch_exceptions=False)
                print(done.output)
                assert done.exit_code in (0, 1), done.output

    RUN: ClassVar[dict[str, Callable[[Page, str], None]]] = {"sql": sql, "python": python, "sh": sh}

    def close(self) -> None:
        for value in self._names.values():
            if hasattr(value, "replay") and hasattr(value, "close"):
                value.close()


@pytest.mark.spark
@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_page(path: Path, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewriting: bool) -> None:
    connect = deadband.connect  # pages connect as users do; here on the session there is, with views of their own
    monkeypatch.setattr(
        deadband, "connect", lambda given=None, **options: connect(given or spark.newSession(), **options)
    )
    monkeypatch.chdir(ROOT)
    text = path.read_text(encoding="utf-8")
    page, wrong, edits = Page(spark, tmp_path), [], []
    with pd.option_context("display.width", 120, "display.max_columns", 20):
        try:
            for block in blocks(text):
                if block.language not in Page.RUN:
                    continue
                try:
                    printed = page.run(block)
                except Exception as error:
                    raise AssertionError(f"{path.name}:{block.line}: the block fails: {error}") from error
                if block.shown is not None and not fits(block.shown, printed):
                    wrong.append(f"{path.name}:{block.line} prints\n{printed}")
                    edits.append((block.place, printed))
        finally:
            page.close()
    if rewriting:
        for (first, last), printed in reversed(edits):
            text = text[:first] + printed + text[last:]
        path.write_text(text, encoding="utf-8")
    else:
        assert not wrong, "\n".join(wrong)


def fits(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed, `…` standing for what was left out."""
    pattern = re.escape(shown.strip("\n") + "\n")
    pattern = re.sub(r"(?m)^…\\\n", r"(?:.*\\n)*?", pattern)
    return re.fullmatch(pattern.replace("…", ".*"), printed) is not None


@pytest.mark.parametrize(
    ("shown", "printed", "fit"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("took … s\n", "took 1.5 s\n", True),
        ("took … s\n", "took 1.5\n s\n", False),
    ],
)
def test_fits(shown: str, printed: str, fit: bool) -> None:
    assert fits(shown, printed) is fit


# ---------------------------------------------------------------- coverage and links


def test_language_shows_every_statement_and_clause() -> None:
    shown = set(words_of(LANGUAGE))
    rules = {str(rule.origin.name) for rule in load_parser().rules if not rule.origin.name.startswith("__")}
    terminals = {t.name for t in load_parser().terminals if not t.name.startswith("__")}
    keywords = {t for rule in load_parser().rules for t in map(str, (s.name for s in rule.expansion)) if t in terminals}
    unseen = {"BAD_BOUND"}  # what is no bound: an error
    hidden = {name for name in terminals if name not in keywords or not name.isidentifier()}
    punctuation = {"LPAR", "RPAR", "COMMA", "SEMICOLON", "LESSTHAN", "MORETHAN", "COLON"}
    inlined = {"statement", "stream_clause", "clause", "value"}
    assert sorted(((rules - inlined) | (keywords - hidden - punctuation)) - shown - unseen) == []


def words_of(page: Path) -> Iterator[str]:
    """The rules and terminals of the grammar that the sql blocks of a page use."""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "sql":
            for tree in load_parser().parse(block.code).iter_subtrees():
                assert isinstance(tree, Tree)
                yield str(tree.data)
                yield from (child.type for child in tree.children if isinstance(child, Token))


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), f"{path.name} links to {target}"
        assert page.is_relative_to(ROOT), f"{path.name} links out of the project: {target}"
        if anchor:
            assert anchor in anchors(page), f"{path.name} links to {target}, and there is no such heading"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
