"""The deadband command: what it prints, where, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import deadband
from deadband.cli import main
from deadband.shell import complete, is_blank

ROOT = Path(__file__).resolve().parent.parent
METERS = """\
CREATE TEMPORARY VIEW log AS
  SELECT * FROM VALUES ('a', 1.0, 0), ('b', 5.0, 0), ('a', 2.0, 1), ('b', 9.0, 2), ('a', 1.5, 3) AS t (meter, watts, second);
CREATE STREAM meters (meter STRING, watts DOUBLE, second INT) KEY (meter) TIMESTAMP BY second
  USING table OPTIONS (name 'log');
CREATE CONTINUOUS QUERY total AS SELECT SUM(watts) AS watts FROM meters COHERENCY watts WITHIN 2;
"""
NO_SOURCE = """\
CREATE STREAM meters (meter STRING, watts DOUBLE, second INT) KEY (meter) TIMESTAMP BY second;
CREATE CONTINUOUS QUERY total AS SELECT SUM(watts) AS watts FROM meters COHERENCY watts WITHIN 2;
"""


def deadband_command(*args, stdin="", **env):
    """A process of its own, for what only a process shows."""
    return subprocess.run(
        [sys.executable, "-m", "deadband", *map(str, args)],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **env},
    )


@pytest.fixture
def invoke():
    return lambda *args, **options: CliRunner().invoke(main, [str(a) for a in args], **options)


@pytest.fixture
def on_spark(spark, invoke):
    """Runs a command on the tests' Spark, with temporary views of its own."""
    return lambda *args, **options: invoke(*args, obj=spark.newSession(), **options)


@pytest.fixture
def file(tmp_path):
    def written(text, name="file.sql"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


# ---------------------------------------------------------------- help and usage


@pytest.mark.parametrize("command", ["run", "explain", "check", "shell"])
def test_help_describes_and_shows_an_example(invoke, command):
    done = invoke(command, "--help")
    assert done.exit_code == 0
    assert f"  deadband {command}" in done.output.split("Examples:")[1]


def test_help_lists_the_commands_and_version_tells_the_version(invoke):
    done = invoke("--help")
    assert done.exit_code == 0 and all(f"\n  {c} " in done.output for c in ("run", "explain", "check", "shell"))
    assert invoke("--version").output == f"deadband {deadband.__version__}\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run"], "Missing argument 'FILE'"),
        (["run", "nowhere.sql"], "'nowhere.sql' does not exist"),
        (["check", "."], "is a directory"),
        (["walk"], "No such command 'walk'"),
        (["run", "-", "--live"], "--live needs --checkpoint"),
        (["run", "-", "--once"], "belong to --live"),
        (["run", "-", "--live", "--checkpoint", "x", "--once", "--trigger", "1 second"], "without a --trigger"),
        (["run", "-", "--csv"], "--csv needs --answers"),
        (["run", "-", "--limit", "3"], "--limit belongs to --answers"),
        (["run", "-", "--live", "--checkpoint", "x", "--answers", "q"], "belong to a replay"),
        (["explain", "-", "--analyze", "--no-spark"], "needs Spark"),
        (["explain", "-", "--format", "svg"], "'svg' is not one of"),
    ],
)
def test_usage_errors_end_with_2(invoke, args, says):
    done = invoke(*args)
    assert done.exit_code == 2 and says in done.stderr, done.output


# ---------------------------------------------------------------- check


def test_check_prints_a_line_per_query(invoke, file):
    done = invoke("check", file(METERS + "CREATE CONTINUOUS QUERY most AS SELECT MAX(watts) AS watts FROM meters;"))
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "total  LinearAggregate    EmitOnDrift  abs(watts - truth) <= 2 at every closed tick",
        "most   ExtremumAggregate  SparkExact   exactly the rows of the plain SQL at every closed tick, as changes",
    ]


def test_check_points_at_the_mistake(invoke, file):
    path = file(NO_SOURCE.replace("SUM(watts)", "SUM(wats)"))
    done = invoke("check", path)
    assert (done.exit_code, done.stdout) == (1, "")
    first, line, caret, *rest = done.stderr.splitlines()
    assert first.startswith(f"{path}:2:45: ")
    assert line == "  | " + path.read_text().splitlines()[1]
    assert caret.index("^") == line.index("wats)") and caret.endswith("^^^^")
    assert any(text.startswith("hint: did you mean watts") for text in rest)
    assert "Traceback" not in done.stderr


def test_check_reports_the_mistakes_of_every_query(invoke, file):
    bad = "CREATE CONTINUOUS QUERY {0} AS SELECT SUM({0}) AS x FROM meters;\n"
    done = invoke("check", file(NO_SOURCE + bad.format("foo") + bad.format("bar")))
    assert done.exit_code == 1
    assert done.stdout.startswith("total ") and "foo" in done.stderr and "bar" in done.stderr


def test_check_json(invoke, file):
    path = file(NO_SOURCE + "CREATE CONTINUOUS QUERY x AS SELECT nope FROM meters;")
    done = invoke("check", path, "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [(q["file"], q["query"], q["operator"]) for q in found["queries"]] == [(str(path), "total", "EmitOnDrift")]
    assert [(e["file"], e["line"], e["column"]) for e in found["errors"]] == [(str(path), 3, 37)]


def test_check_takes_each_file_as_a_program(invoke, file):
    done = invoke("check", file(NO_SOURCE, "a.sql"), file(NO_SOURCE, "b.sql"))
    assert done.exit_code == 0
    assert [line.split(":")[0][-5:] for line in done.stdout.splitlines()] == ["a.sql", "b.sql"]


def test_check_reads_standard_input(invoke):
    assert invoke("check", "-", input=NO_SOURCE).exit_code == 0
    done = invoke("check", "-", input="CREATE STREAM s")
    assert done.exit_code == 1 and done.stderr.startswith("<stdin>:1:")


def test_check_of_nothing_says_so(invoke, file):
    done = invoke("check", file("-- nothing here"))
    assert done.exit_code == 0 and "no CREATE CONTINUOUS QUERY" in done.stderr


def test_a_file_that_is_no_text(invoke, tmp_path):
    (tmp_path / "x.sql").write_bytes(b"SELECT '\xff\xfe'")
    done = invoke("check", tmp_path / "x.sql")
    assert done.exit_code == 1 and "not UTF-8" in done.stderr


def test_check_needs_no_java(tmp_path, file):
    done = deadband_command("check", file(METERS), PATH=str(tmp_path), JAVA_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


# ---------------------------------------------------------------- explain


def test_explain_only_compiles_when_no_stream_has_a_source(file):
    done = deadband_command("explain", file(NO_SOURCE), JAVA_HOME="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "EmitOnDrift (incremental)" in done.stdout and "no statistics" in done.stdout


@pytest.mark.parametrize(
    ("form", "begins"),
    [("text", "total\n  promise"), ("mermaid", "flowchart"), ("html", "<!doctype html>"), ("json", "[")],
)
def test_explain_formats(invoke, file, form, begins):
    done = invoke("explain", file(METERS), "--no-spark", "--format", form)
    assert done.exit_code == 0 and done.stdout.startswith(begins)
    if form == "json":
        (plan,) = json.loads(done.stdout)
        assert (plan["version"], plan["query"], plan["plan"]["op"]) == (1, "total", "EmitOnDrift")


def test_explain_verbose_gives_the_whole_sql(invoke, file):
    short = invoke("explain", file(METERS), "--no-spark").stdout
    full = invoke("explain", file(METERS), "--no-spark", "--verbose").stdout
    assert "…" in short and "…" not in full


def test_explain_one_query(invoke, file):
    text = METERS + "CREATE CONTINUOUS QUERY most AS SELECT MAX(watts) AS watts FROM meters;"
    assert invoke("explain", file(text), "--no-spark", "--query", "MOST").stdout.startswith("most\n")
    done = invoke("explain", file(text), "--no-spark", "--query", "mots")
    assert done.exit_code == 1 and "did you mean most?" in done.stderr


def test_explain_tells_folded_queries_once(invoke, file):
    one = "CREATE CONTINUOUS QUERY q{0} AS SELECT SUM(watts * {0}) AS x FROM meters COHERENCY x WITHIN {0};\n"
    done = invoke("explain", file(NO_SOURCE + "".join(one.format(i) for i in range(2, 40))))
    assert done.stdout.count("promise") == 2 and "38 queries" in done.stdout


@pytest.mark.spark
def test_explain_estimates_from_the_sources(on_spark, file):
    done = on_spark("explain", file(METERS))
    assert done.exit_code == 0, done.output
    assert "items 2" in done.stdout and "ticks 4" in done.stdout and "no statistics" not in done.stdout


@pytest.mark.spark
def test_explain_analyze_measures(on_spark, file):
    done = on_spark("explain", file(METERS), "--analyze", "--format", "json")
    assert done.exit_code == 0, done.output
    (plan,) = json.loads(done.stdout)
    assert plan["plan"]["measured"]["reported"] == 1 and plan["plan"]["estimate"]["ticks"] == 4


# ---------------------------------------------------------------- run


@pytest.mark.spark
def test_run_shows_results_plans_and_report(on_spark, file):
    text = (
        METERS
        + "SELECT meter, MAX(watts) AS most FROM log GROUP BY meter ORDER BY meter; SHOW STREAMS; EXPLAIN CONTINUOUS QUERY total;"
    )
    done = on_spark("run", file(text), "--answers", "total")
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()[:4] if "─" not in line] == [
        ["meter", "most"],
        ["a", "2.0"],
        ["b", "9.0"],
    ]
    assert "meters" in done.stdout and "estimate: ticks 4" in done.stdout
    assert "total: abs(watts - truth) <= 2 at every closed tick\n└── EmitOnDrift" in done.stdout
    (line,) = [x.split() for x in done.stdout.splitlines() if x.startswith("total ") and "100%" in x and " 2 " in x]
    #                     messages, baseline, share, fidelity, largest error, bound, initial, late, rejected
    assert line[1:10] == ["1", "3", "33.33%", "100%", "1", "2", "1", "0", "0"]
    assert "2 changes of total" in done.stdout


@pytest.mark.spark
def test_run_quiet_leaves_the_plans_out(on_spark, file):
    done = on_spark("run", file(METERS), "--quiet")
    assert done.exit_code == 0 and "EmitOnDrift" not in done.stdout and "messages" in done.stdout


@pytest.mark.spark
def test_run_json_is_json_and_nothing_else(on_spark, file):
    done = on_spark(
        "run", file(METERS + "SELECT 1; EXPLAIN CONTINUOUS QUERY total;"), "--json", "--answers", "Total", "--limit", 1
    )
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [p["query"] for p in found["plans"]] == ["total"]
    assert found["report"]["queries"]["total"]["messages"] == found["report"]["total"]["messages"] == 1
    assert found["answers"]["Total"] == [{"ts": 0, "diff": 1, "watts": 6.0, "low": 4.0, "high": 8.0}]
    assert found["seconds"] > 0


@pytest.mark.spark
def test_run_csv(on_spark, file):
    done = on_spark("run", file(METERS), "--answers", "total", "--csv")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["ts,diff,watts,low,high", "0,1,6.0,4.0,8.0", "2,1,11.0,9.0,13.0"]


@pytest.mark.spark
def test_run_of_very_many_queries_does_not_flood(on_spark, file):
    one = "CREATE CONTINUOUS QUERY q{0} AS SELECT SUM(watts * {0}) AS x FROM meters COHERENCY x WITHIN 1;\n"
    done = on_spark("run", file(METERS + "".join(one.format(i) for i in range(2, 202)) + "SHOW CONTINUOUS QUERIES;"))
    assert done.exit_code == 0, done.output
    assert "; and 199 more like it" in done.stdout and "… 181 more" in done.stdout
    assert len(done.stdout.splitlines()) < 80


@pytest.mark.spark
def test_run_without_queries_shows_results(on_spark, file):
    done = on_spark("run", file("SELECT 1 AS one, NULL AS nothing, true AS yes, map('a', struct(1.5 AS b)) AS nested;"))
    assert done.exit_code == 0 and "nothing to run" in done.stderr
    assert done.stdout.splitlines()[2].split(maxsplit=3) == ["1", "NULL", "true", "{a: {b: 1.5}}"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NO_SOURCE, "stream meters has no rows"),
        (METERS.replace("name 'log'", "name 'logg'"), "the source of meters cannot be read"),
        (METERS.replace("WITHIN 2", "WITHIN 2 INTO nonsense OPTIONS (path '/nowhere')"), "nonsense"),
        ("SELECT 1 / 0;", "DIVIDE_BY_ZERO"),
        ("SELECT * FROM nowhere;", "nowhere"),
    ],
)
def test_run_tells_what_went_wrong(on_spark, file, text, says):
    done = on_spark("run", file(text))
    assert done.exit_code == 1 and says in done.stderr and "Traceback" not in done.stderr, done.output


def test_run_finds_mistakes_before_spark_starts(invoke, file):
    done = invoke("run", file(METERS.replace("SUM(watts)", "SUM(wats)")), obj="no session at all")
    assert done.exit_code == 1 and "did you mean watts" in done.stderr
    done = invoke("run", file(METERS), "--answers", "totl", obj="no session at all")
    assert done.exit_code == 1 and "did you mean total?" in done.stderr


def test_ctrl_c_ends_with_130(invoke, file, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("deadband.cli.read", interrupted)
    assert invoke("run", file(METERS)).exit_code == 130


def test_a_conf_without_value(invoke, file):
    done = invoke("run", file(METERS), "--conf", "spark.ui.enabled")
    assert done.exit_code == 2 and "is not KEY=VALUE" in done.stderr


def test_a_reader_that_leaves_is_no_error(file):
    many = "".join(f"CREATE CONTINUOUS QUERY q{i} AS SELECT SUM(watts) AS x FROM meters;\n" for i in range(3000))
    command = f"{sys.executable} -m deadband check {file(NO_SOURCE + many)} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("total ") and done.stderr == ""


@pytest.mark.spark
def test_a_process_of_its_own(file):
    done = deadband_command("run", "-", "--json", stdin=METERS)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["report"]["total"]["messages"] == 1


# ---------------------------------------------------------------- shell


@pytest.mark.spark
def test_shell_runs_piped_statements_and_goes_on_after_mistakes(on_spark):
    lines = [
        *METERS.splitlines(),
        "SELECT 'a;b' AS",
        "  text; -- not ended here; but before",
        "SELECT nope FROM log;",
        ".answers total",
        ".replay",
        ".answers total 1",
        ".answer total",
        "ALTER CONTINUOUS QUERY totl SET COHERENCY watts WITHIN 1;",
        ".queries",
        "SELECT 40 + 2 AS last",
    ]
    done = on_spark("shell", input="\n".join(lines))
    assert done.exit_code == 1  # some statements failed
    assert "deadband>" not in done.stdout and "ok" not in done.stdout
    assert "a;b" in done.stdout and "messages" in done.stdout and "… 1 more changes of total" in done.stdout
    assert done.stdout.splitlines()[-2].split() == ["42"]
    for told in (
        "nope",
        "nothing has been replayed yet",
        "unknown command .answer",
        "did you mean .answers?",
        "did you mean total?",
    ):
        assert told in done.stderr
    assert "<stdin>:8:1" in done.stderr and "<stdin>:13:24: unknown continuous query totl" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_shell_runs_a_file_first(on_spark, file):
    done = on_spark("shell", file(METERS), input=".replay\n.report\n.quit\nSELECT nonsense;\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("largest error") == 2


def test_shell_needs_no_spark_for_help(invoke):
    done = invoke("shell", input=".help\n\n  .queries\n", obj="no session at all")
    assert done.exit_code == 0 and ".replay" in done.stdout and "no continuous queries yet" in done.stdout


@pytest.mark.parametrize(
    ("whole", "rest"),
    [
        ("SELECT 1;", ""),
        ("SELECT 1;", " SELECT 2"),
        ("", "SELECT ';'"),
        ("", "SELECT 'it''s;"),
        ("", "SELECT `a;b` -- ;"),
        ("", "SELECT 1 /* ; "),
        ('SELECT ";" ;', ""),
        ("SELECT 1 -- it's\n;", ""),
        ("SELECT 5 - 3 /2;SELECT 3;", ""),
    ],
)
def test_statements_end_at_semicolons_outside_strings_and_comments(whole, rest):
    assert complete(whole + rest) == (whole, rest)


def test_blank():
    assert is_blank(" -- so; \n /* and */\n") and not is_blank("/* open") and not is_blank("x -- y")
