"""Imports go one way: grammar <- compiler <- runtime <- deadband; lark and pyspark stay where they belong."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("grammar", "compiler", "runtime", "deadband")
LARK = ("grammar/", "compiler/parse.py", "compiler/errors.py")
KERNELS = "runtime/kernels/"
KERNELS_MAY_IMPORT = ("deadband.runtime.kernels", "deadband.compiler.planning")

FILES = sorted(path.relative_to(ROOT).as_posix() for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
OTHERS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("benchmarks", "examples", "tests")
    for path in (ROOT / folder).rglob("*.py")
)


def test_every_layer_has_files():
    assert {path.split("/")[0] for path in FILES} == set(LAYERS)


@pytest.mark.parametrize("path", FILES)
def test_imports_of(path):
    assert violations(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", OTHERS)
def test_folders_are_imported_through_deadband(path):
    assert list(by_folder_name(path, (ROOT / path).read_text(encoding="utf-8"))) == []


def test_importing_deadband_loads_no_pyspark():
    code = "import sys, deadband; print(*sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("grammar/__init__.py", "from deadband.compiler import ast"),
        ("grammar/__init__.py", "from .. import compiler"),
        ("compiler/bind/columns.py", "from ...runtime import replay"),
        ("compiler/bind/columns.py", "def f():\n    import deadband.runtime.replay"),
        ("compiler/catalog.py", "from deadband import DeadbandError"),
        ("compiler/catalog.py", "import lark"),
        ("compiler/catalog.py", "from compiler.errors import DeadbandError"),
        ("compiler/lower/drift.py", "def f():\n    from pyspark.sql import DataFrame"),
        ("compiler/lower/drift.py", "import importlib\nimportlib.import_module('pyspark.sql')"),
        ("runtime/replay.py", "from deadband.cli import main"),
        ("runtime/kernels/drift.py", "import pyspark"),
        ("runtime/kernels/drift.py", "from deadband.compiler.physical import EmitOnDrift"),
        ("runtime/kernels/drift.py", "from ..operators import drift"),
        ("deadband/__init__.py", "from deadband.runtime.connection import Connection"),
        ("deadband/__init__.py", "from .runtime import connection"),
        ("deadband/cli.py", "class C:\n    import deadband.runtime"),
        ("deadband/cli.py", "def f():\n    import pyspark"),
    ],
)
def test_a_wrong_import_is_found(path, source):
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("grammar/__init__.py", "from lark import Lark"),
        ("compiler/parse.py", "import lark\nfrom ..grammar import load_parser\nfrom . import ast"),
        (
            "runtime/operators/drift.py",
            "from pyspark.sql import DataFrame\nfrom ...compiler.physical import EmitOnDrift",
        ),
        ("runtime/kernels/drift.py", "import numpy\nfrom . import sums\nfrom ...compiler.planning import split"),
        ("deadband/__init__.py", "from .compiler import compile\ndef connect():\n    from .runtime import connection"),
        ("deadband/cli.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .runtime import replay"),
    ],
)
def test_a_right_import_passes(path, source):
    assert violations(path, source) == []


def violations(path: str, source: str) -> list[str]:
    """What the imports of one file break, one line each."""
    tree = ast.parse(source, path)
    found = list(by_folder_name(path, source))
    for line, module in imports(path, ast.walk(tree)):
        top, layer = module.split(".")[0], layer_of(module)
        if layer and LAYERS.index(layer) > LAYERS.index(path.split("/")[0]):
            found.append(f"{path}:{line}: imports {module}, a layer to its right")
        elif layer and path.startswith(KERNELS) and not within(module, KERNELS_MAY_IMPORT):
            found.append(f"{path}:{line}: a kernel imports {module}")
        elif top == "lark" and not path.startswith(LARK):
            found.append(f"{path}:{line}: imports lark")
        elif top in ("pyspark", "py4j") and (not path.startswith("runtime/") or path.startswith(KERNELS)):
            found.append(f"{path}:{line}: imports {module}")
    if path.startswith("deadband/"):
        for line, module in imports(path, at_import_time(tree)):
            if layer_of(module) == "runtime":
                found.append(f"{path}:{line}: imports {module} outside a function")
    return found


def by_folder_name(path: str, source: str) -> Iterator[str]:
    """`import compiler` works from the root of the repository, and loads every module a second time."""
    for line, module in imports(path, ast.walk(ast.parse(source, path))):
        if module.split(".")[0] in LAYERS[:-1]:
            yield f"{path}:{line}: imports {module}, not deadband.{module}"


def imports(path: str, nodes: Iterator[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import among the nodes; of `from a import b`, a.b."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                package = package_of(path)
                parents = package[: len(package) + 1 - level] if level else []
                base = ".".join([*parents, *filter(None, [module])])
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield node.lineno, module


def package_of(path: str) -> list[str]:
    folders = path.split("/")[:-1]
    return folders if folders[0] not in LAYERS[:-1] else ["deadband", *folders]


def layer_of(module: str) -> str | None:
    match module.split("."):
        case ["deadband", ("grammar" | "compiler" | "runtime") as layer, *_]:
            return layer
        case ["deadband", *_]:
            return "deadband"
    return None


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the file is imported: no function bodies, nothing only for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import_time(child)
