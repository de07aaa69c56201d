"""Every example runs, from the command line as its first lines say, and shows what it claims."""

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deadband.cli import main

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def run(spark, tmp_path):
    """Runs an example on the tests' Spark; relative paths are resolved, as Spark's own working directory is fixed."""

    def invoke(name, *args):
        text = (
            (EXAMPLES / name).read_text().replace("'examples/", f"'{EXAMPLES}/").replace("'out/", f"'{tmp_path}/out/")
        )
        (tmp_path / name).write_text(text)
        done = CliRunner().invoke(main, ["run", str(tmp_path / name), *args], obj=spark.newSession())
        assert done.exit_code == 0, done.output
        return done

    return invoke


@pytest.fixture
def replayed(run):
    """The figures of an example's queries, and the changes of one of them as (ts, diff, values…)."""

    def invoke(name, answers=None):
        asked = () if answers is None else ("--answers", answers)
        found = json.loads(run(name, "--json", *asked).stdout)
        changes = [tuple(row.values()) for row in found.get("answers", {}).get(answers, [])]
        return found["report"]["queries"], changes

    return invoke


def test_every_example_is_tested():
    tested = {"portfolio", "percent", "fidelity", "exact", "folding", "emit_every", "sink", "live", "precision"}
    assert {p.stem for p in EXAMPLES.glob("*.sql")} == tested


@pytest.mark.slow
def test_portfolio(run):
    out = run("portfolio.sql").stdout
    assert "baseline 3,000,000" in out and "groups 1,000" in out  # EXPLAIN
    (line,) = [x.split() for x in out.splitlines() if x.startswith("portfolio ")]
    messages, baseline, error = int(line[1].replace(",", "")), int(line[2].replace(",", "")), float(line[5])
    assert baseline > 2_900_000 and messages < 0.02 * baseline and line[4] == "100%" and 79 < error <= 80
    (line,) = [x.split() for x in out.splitlines() if x.startswith("sectors ")]
    assert 98 <= float(line[4].rstrip("%")) < 100


def test_percent(replayed):
    figures, changes = replayed("percent.sql", "floors")
    assert figures["floors"]["messages"] == 4 and figures["floors"]["fidelity"] == 1
    assert (3, 1, 1, 524.0, pytest.approx(497.8), pytest.approx(550.2)) in changes


def test_fidelity(replayed):
    figures, changes = replayed("fidelity.sql", "relaxed")
    assert figures["strict"]["fidelity"] == 1 and 0.8 <= figures["relaxed"]["fidelity"] < 1
    assert figures["relaxed"]["messages"] < figures["strict"]["messages"] / 2
    assert all(ts == 0 or ts > 95 for ts, *_ in changes)  # no visit at the door is told


def test_exact(replayed):
    figures, changes = replayed("exact.sql", "by_country")
    assert [(diff, *values) for _, diff, *values in changes] == [
        (1, "SE", 1, 50.0),
        (1, "DE", 1, 20.0),
        (-1, "SE", 1, 50.0),
        (1, "SE", 2, 120.0),
        (-1, "SE", 2, 120.0),
        (1, "SE", 2, 125.0),
        (-1, "DE", 1, 20.0),
    ]
    assert {f["max_error"] for f in figures.values()} == {0.0}


def test_folding(run):
    out = run("folding.sql").stdout
    assert "eu: " in out and "; and 2 more like it" in out and "; and 3 more like it" in out


def test_emit_every(replayed):
    figures, changes = replayed("emit_every.sql", "pages")
    assert len({ts for ts, *_ in changes}) == 4  # one of five minutes has no clicks
    assert figures["revenue"]["messages"] == 1


def test_sink(replayed, tmp_path):
    replayed("sink.sql")
    rows = [
        json.loads(x) for f in sorted(tmp_path.glob("out/tanks/batch=0/*.json")) for x in f.read_text().splitlines()
    ]
    assert [(r["ts"], r["diff"], r["tank"]) for r in rows] == [
        (0, 1, "A"),
        (0, 1, "B"),
        (1, 1, "B"),
        (2, 1, "A"),
        (3, -1, "B"),
    ]


def test_live(run, tmp_path):
    args = ("live.sql", "--live", "--once", "--json", "--checkpoint", str(tmp_path / "state"))
    *changes, last = [json.loads(line) for line in run(*args).stdout.splitlines()]
    assert [(c["ts"][-8:], c["diff"], c["row"]["floor"]) for c in changes] == [
        ("09:00:00", 1, 1),
        ("09:00:00", 1, 2),
        ("09:00:01", 1, 1),
        ("09:00:11", 1, 2),
        ("09:00:18", 1, 1),
        ("09:00:25", 1, 1),
    ]
    assert last["report"]["total"]["late"] == 0
    (again,) = [json.loads(line) for line in run(*args).stdout.splitlines()]  # goes on where it was: nothing new
    assert again == last


def test_live_replayed(replayed):
    figures, changes = replayed("live.sql", "floors")
    assert len(changes) == 6 and figures["floors"]["max_error"] <= 20


def test_embed(spark, capsys):
    spec = importlib.util.spec_from_file_location("embed", EXAMPLES / "embed.py")
    assert spec is not None and spec.loader is not None
    embed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(embed)
    embed.main(spark.newSession())
    out = capsys.readouterr().out
    assert out.startswith("abs(value - truth) <= 80") and " messages for " in out


def test_precision(replayed):
    figures, changes = replayed("precision.sql", "latency")
    latency, worst = figures["latency"], figures["worst"]
    assert latency["messages"] + latency["control"] < 0.2 * latency["baseline"] and latency["initial"] == 56
    assert worst["messages"] <= latency["messages"] + worst["baseline"] and worst["reported"] > 0
    assert all(high - low <= 2 for *_, low, high in changes) and len(changes) > 8
