"""The folders of the repository install as one package: from a wheel, and in place."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE_DIR = PROJECT["tool"]["setuptools"]["package-dir"]

COMPILE = """
import sys
sys.path[:0] = sys.argv[1:]
import deadband
[plan] = deadband.compile('''
CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 80;
''')
assert plan.json["query"] == "total", plan.json
assert not {"pyspark", "py4j"} & set(sys.modules)
print(*sorted({m.__file__ for name, m in sys.modules.items() if name.split(".")[0] == "deadband"}), sep="\\n")
"""


def test_every_package_on_disk_is_listed():
    on_disk = {
        ".".join([package, *init.parent.relative_to(ROOT / folder).parts])
        for package, folder in PACKAGE_DIR.items()
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert on_disk == set(PROJECT["tool"]["setuptools"]["packages"])


def test_the_wheel_has_every_file(wheel):
    expected = {
        "/".join([*package.split("."), *path.relative_to(ROOT / folder).parts])
        for package, folder in PACKAGE_DIR.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("deadband/")}
    assert held == expected
    assert "deadband/grammar/deadband.lark" in held


def test_the_wheel_compiles_without_spark_or_java(wheel, tmp_path):
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    # -S leaves out the .pth files, and with them the editable install, which would fill in for what the wheel lacks
    paths = [unpacked, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    done = run("-I", "-S", "-c", COMPILE, *paths, cwd=tmp_path, env={"PATH": ""})
    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(unpacked) for file in done.stdout.split("\n")[:-1])


def test_the_editable_install_works_from_anywhere(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = run("-c", COMPILE, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert str(ROOT / "deadband" / "__init__.py") in done.stdout.split("\n")
    assert all(Path(file).is_relative_to(ROOT) for file in done.stdout.split("\n")[:-1])


def test_the_installed_metadata_is_current():
    assert importlib.metadata.version("deadband") == PROJECT["project"]["version"]
    [script] = importlib.metadata.entry_points(group="console_scripts", name="deadband")
    assert callable(script.load())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy, so that no earlier build of the repository gets into it."""
    tmp = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp / name).write_bytes((ROOT / name).read_bytes())
    for folder in PACKAGE_DIR.values():
        shutil.copytree(ROOT / folder, tmp / folder, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    done = run("-m", "pip", "wheel", *options, "--wheel-dir", tmp / "dist", tmp, cwd=tmp)
    assert done.returncode == 0, done.stderr
    [built] = (tmp / "dist").glob("deadband-*.whl")
    return built


def run(*arguments, **options):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, **options)
