"""Golden tests: the cases of tests/parse, tests/errors and tests/explain, each beside what comes out of it.

A case is the text under a line `--- its name`; what stands above the first case is given to all of them. The other
cases are blanked, not cut, so that a message's line and column are those of the file. `pytest --rewrite` writes the
`.txt` files anew: read the diff.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deadband.compiler import ast
from deadband.compiler.catalog import Catalog
from deadband.compiler.errors import DeadbandError, Span
from deadband.compiler.parse import parse
from deadband.compiler.program import Program

HERE = Path(__file__).parent
TITLE = re.compile(r"^--- (.+)\n", re.M)


def parsed(text: str, name: str) -> str:
    """The statements as a tree."""
    return "\n".join(line for statement in parse(text, name) for line in drawn(statement))


def refused(text: str, name: str) -> str:
    """The one message; a text that compiles fails the test."""
    with pytest.raises(DeadbandError) as caught:
        compiled(text, name)
    assert caught.value.span is not None, "an error without a place"
    return str(caught.value)


def explained(text: str, name: str) -> str:
    """What each EXPLAIN prints."""
    return "\n".join(str(plan) for plan in compiled(text, name))


def compiled(text: str, name: str) -> list:
    program, plans = Program(Catalog()), []
    for statement in parse(text, name):
        if isinstance(statement, ast.Explain):
            plans.append(program.explained(statement))
        else:
            program.add(statement)
    program.plans()
    return plans


KINDS: dict[str, Callable[[str, str], str]] = {"parse": parsed, "errors": refused, "explain": explained}
FILES = [path for kind in KINDS for path in sorted((HERE / kind).glob("*.sql"))]


def cases(path: Path) -> dict[str, str]:
    """Case -> the file's text with the other cases blanked."""
    text = path.read_bytes().decode()  # newlines as they are
    titles = list(TITLE.finditer(text))
    ends = [t.start() for t in titles[1:]] + [len(text)]
    found = {}
    for title, end in zip(titles, ends):
        blank = re.sub(r"[^\n]", "", text[titles[0].start() : title.end()])
        found[title[1]] = text[: titles[0].start()] + blank + text[title.end() : end].rstrip("\n")
    assert len(found) == len(titles), f"two cases of {path.name} have one name"
    return found


def golden(path: Path) -> dict[str, str]:
    """Case -> what is expected of it."""
    text = path.with_suffix(".txt")
    _, *rest = TITLE.split(text.read_text()) if text.exists() else [""]
    return {title: output.rstrip("\n") for title, output in zip(rest[::2], rest[1::2])}


def output(path: Path, text: str) -> str:
    return KINDS[path.parent.name](text, path.name)


ALL = [(path, case) for path in FILES for case in cases(path)]


@pytest.mark.parametrize(("path", "case"), ALL, ids=[f"{p.parent.name}/{p.stem}: {c}" for p, c in ALL])
def test_case(path: Path, case: str, rewriting: bool) -> None:
    if rewriting:
        pytest.skip("written anew by test_file")
    assert output(path, cases(path)[case]) == golden(path).get(case)


@pytest.mark.parametrize("path", FILES, ids=[f"{p.parent.name}/{p.stem}" for p in FILES])
def test_file(path: Path, rewriting: bool) -> None:
    """The .txt has the cases of the .sql, in their order."""
    if rewriting:
        found = [f"--- {case}\n{output(path, text)}\n" for case, text in cases(path).items()]
        path.with_suffix(".txt").write_text("\n".join(found))
    assert list(golden(path)) == list(cases(path))


# ---------------------------------------------------------------- statements as a tree


def drawn(node: object, label: str = "", indent: str = "") -> Iterator[str]:
    """A line per field; names, SQL and numbers on the line of their field, what is absent left out."""
    head = f"{indent}{label}: " if label else indent
    if isinstance(node, ast.Name | ast.Sql):
        yield f"{head}{' '.join(node.text.split()) if isinstance(node, ast.Sql) else node.text}"
    elif isinstance(node, ast.Bound | ast.Interval):
        yield f"{head}{node if isinstance(node, ast.Bound) else f'{node.seconds:g} s'}"
    elif isinstance(node, ast.Column):
        yield f"{head}{node.name.text} {node.type.text}"
    elif dataclasses.is_dataclass(node):
        yield f"{head}{type(node).__name__}"
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if not isinstance(value, Span) and value not in (None, (), False):
                yield from drawn(value, field.name, indent + "  ")
    elif isinstance(node, tuple) and all(isinstance(n, ast.Name) for n in node):
        yield f"{head}{', '.join(n.text for n in node)}"
    elif isinstance(node, tuple) and all(isinstance(n, ast.Option) for n in node):
        yield f"{head}{json.dumps({o.name.text: o.value for o in node}, ensure_ascii=False)}"
    elif isinstance(node, tuple) and all(isinstance(n, tuple) for n in node):
        yield f"{head}{json.dumps(dict(node), ensure_ascii=False)}"
    elif isinstance(node, tuple):
        yield f"{indent}{label}"
        for item in node:
            yield from drawn(item, "", indent + "  ")
    else:
        yield f"{head}{node}"
