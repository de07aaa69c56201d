"""PRECISION in the compiler: answers, candidates, folding, methods, the options of a stream, and what EXPLAIN says."""

import pytest

import deadband
from deadband.compiler.catalog import Catalog, Stream
from deadband.compiler.logical import Answer, ExtremumAggregate, LinearAggregate
from deadband.compiler.parse import parse
from deadband.compiler.physical import AdaptiveFilter, Candidate, SparkExact
from deadband.compiler.program import Program
from deadband.compiler.statistics import FilterStatistics

DECLARED = """
CREATE STREAM q (k INT, x DOUBLE, y DOUBLE, name STRING, t INT) KEY (k) TIMESTAMP BY t;
CREATE TABLE h (k INT, g INT, a DOUBLE, b DOUBLE, s STRING);
"""
JOIN = "FROM q JOIN h ON q.k = h.k"


def program(text: str) -> Program:
    made = Program(Catalog())
    for statement in parse(DECLARED + text):
        made.add(statement)
    return made


def plan_of(body: str, clause: str = "PRECISION v WITHIN 1") -> deadband.Plan:
    (plan,) = deadband.compile(f"{DECLARED} CREATE CONTINUOUS QUERY p AS {body} {clause};")
    return plan


def filter_of(body: str, clause: str = "PRECISION v WITHIN 1") -> AdaptiveFilter:
    tree = plan_of(body, clause).tree
    assert isinstance(tree, AdaptiveFilter)
    return tree


def answer_of(expression: str) -> Answer:
    (answer,) = filter_of(f"SELECT {expression} AS v {JOIN}").shape.answers
    return answer


def terms(answer: Answer) -> list[list[tuple[str, str]]]:
    return [[(f.sql("spark"), c.sql("spark")) for f, c in part.terms] for part in answer.parts]


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("expression", "kind", "offset", "default"),
    [
        ("MIN(q.x)", "MIN", 0, None),
        ("MAX(q.x)", "MAX", 0, None),
        ("-MIN(q.x)", "MAX", 0, None),
        ("-MAX(q.x)", "MIN", 0, None),
        ("-(-MIN(q.x))", "MIN", 0, None),
        ("MIN(q.x) * -2", "MAX", 0, None),
        ("-2 * MIN(q.x) / -4", "MIN", 0, None),
        ("MIN(q.x) / 4 + 1", "MIN", 1, None),
        ("MAX(q.x) / -4", "MIN", 0, None),
        ("3 - MAX(q.x)", "MIN", 3, None),
        ("COALESCE(MIN(q.x), 0)", "MIN", 0, 0),
        ("1 - COALESCE(MIN(q.x), 5) * 2", "MAX", 1, -9),
        ("MIN(q.x) * 0", "MIN", 0, None),
        ("MIN(-q.x)", "MIN", 0, None),
        ("MIN(DISTINCT q.x)", "MIN", 0, None),
        ("MAX(q.x) FILTER (WHERE h.a > 0)", "MAX", 0, None),
    ],
)
def test_flips_offsets_and_defaults(expression, kind, offset, default):
    answer = answer_of(expression)
    assert (answer.kind, answer.offset, answer.default) == (kind, offset, default)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        # one row: one feature, affine or not
        ("MIN(q.x)", [[("`x`", "1")]]),
        ("MIN(q.x + q.y)", [[("`x` + `y`", "1")]]),
        ("MIN(2 * q.x)", [[("2 * `x`", "1")]]),
        ("MAX(ABS(q.x))", [[("ABS(`x`)", "1")]]),
        ("MIN(q.x * q.y)", [[("`x` * `y`", "1")]]),
        ("MIN(q.x / q.y)", [[("TRY_DIVIDE(`x`, `y`)", "1")]]),
        ("MIN(q.x - q.k)", [[("`x` - `k`", "1")]]),
        ("MAX(DISTINCT q.x)", [[("`x`", "1")]]),
        ("MIN(CASE WHEN q.x > 0 THEN q.y END)", [[("CASE WHEN `x` > 0 THEN `y` END", "1")]]),
        # a factor of the aggregate is one of the weight
        ("-MIN(q.x + q.y)", [[("`x` + `y`", "-1")]]),
        ("MIN(q.x) / 4", [[("`x`", "TRY_DIVIDE(CAST(1 AS DOUBLE), 4)")]]),
        # static columns: weights
        ("MIN(h.a * q.x)", [[("`x`", "h.a")]]),
        ("MIN(h.a * q.x + q.y - h.b)", [[("`x`", "h.a"), ("`y`", "1")]]),
        ("MIN(h.a)", [[]]),
        # a static CASE: its cases, each a part
        ("MIN(CASE WHEN h.a > 0 THEN q.x + q.y ELSE h.b END)", [[("`x` + `y`", "1")], []]),
        ("MIN(CASE WHEN q.k > 0 THEN q.x END)", [[("`x`", "1")]]),
        ("MIN(IF(h.s = 'a', ABS(q.x), q.y))", [[("ABS(`x`)", "1")], [("`y`", "1")]]),
    ],
)
def test_features_of_an_extremum(expression, found):
    assert terms(answer_of(expression)) == found


def test_answers_of_all_kinds_share_features():
    shape = filter_of(f"SELECT MIN(q.x) AS v, MAX(q.x) AS w, AVG(h.a * q.x) AS m, COUNT(*) AS n {JOIN}").shape
    assert isinstance(shape, ExtremumAggregate)
    assert [a.kind for a in shape.answers] == ["MIN", "MAX", "AVG", "COUNT"]
    assert [f.sql("spark") for f in shape.features] == ["`x`"]
    assert isinstance(filter_of(f"SELECT AVG(q.x) AS v, COUNT(*) AS n {JOIN}").shape, LinearAggregate)


def test_bounds_are_in_the_order_of_the_answers():
    promise = filter_of(
        f"SELECT MIN(q.x) AS a, AVG(q.x) AS b, MAX(q.x) AS c {JOIN}", "PRECISION c WITHIN 2%, A WITHIN 1"
    )
    first, second, third = promise.group.first.promise.bounds
    assert (first.amount, first.percent, second, third.amount, third.percent) == (1, False, None, 0.02, True)
    assert promise.group.first.promise.kind == "PRECISION"


@pytest.mark.parametrize("body", ["SELECT MIN(name) AS v FROM q", "SELECT MAX(q.t > 5) AS v FROM q"])
def test_what_is_no_number_runs_exactly_and_has_no_precision(body):
    assert isinstance(plan_of(body, "").tree, SparkExact)
    with pytest.raises(deadband.DeadbandError, match="cannot be kept here"):
        plan_of(body)


def test_a_type_that_is_not_known_is_left_to_spark():
    plans = deadband.compile(
        "CREATE STREAM q (k INT, x DOUBLE, t INT) KEY (k) TIMESTAMP BY t;"
        "CREATE CONTINUOUS QUERY p AS SELECT MIN(h.a) AS v FROM q JOIN h USING (k) PRECISION v WITHIN 1;",
        tables={"h": None},
    )
    assert isinstance(plans[0].tree, AdaptiveFilter)


# ---------------------------------------------------------------- candidates


def columns(plan: AdaptiveFilter) -> dict[str, str]:
    return {c.alias: c.this.sql("spark") for c in plan.weights.query.selects}


def test_a_candidate_is_a_column_a_flag_and_a_slot_a_weight():
    plan = filter_of(f"SELECT h.g, AVG(q.y) AS m, MIN(h.a * q.x + q.y - h.b) AS v {JOIN} GROUP BY h.g")
    found = columns(plan)
    assert list(found) == ["__item", "g0", "o0", "rows", "n_0_0", "w_0_0_0", "m_1_0"]
    assert found["m_1_0"] == (
        "COLLECT_SET(CASE WHEN NOT (-h.b) IS NULL AND NOT (h.a) IS NULL THEN "
        "NAMED_STRUCT('c', CAST(-h.b AS DOUBLE), 'w0', CAST(h.a AS DOUBLE), 'w1', CAST(1 AS DOUBLE)) END)"
    )
    (candidate,) = plan.candidates
    assert (candidate.column, candidate.answer) == ("m_1_0", 1)
    names = [f.sql("spark") for f in plan.features]
    needs = tuple(sorted((names.index("`x`"), names.index("`y`"))))
    flag = plan.slots[candidate.flag]
    assert (flag.feature, flag.needs) == (None, needs)
    values = [plan.slots[s] for s in candidate.slots]
    assert [(names[v.feature], v.needs) for v in values] == [("`x`", needs), ("`y`", needs)]
    assert {e.answer for e in plan.edges} == {-1, 0}


def test_without_a_condition_there_is_no_case():
    plan = filter_of("SELECT MAX(x) AS v FROM q")
    assert columns(plan)["m_0_0"] == "COLLECT_SET(NAMED_STRUCT('c', CAST(0 AS DOUBLE), 'w0', CAST(1 AS DOUBLE)))"
    assert plan.candidates == (Candidate("m_0_0", 0, 1, (2,)),)
    assert [(s.feature, s.needs) for s in plan.slots] == [(None, ()), (None, (0,)), (0, (0,))]
    assert [(e.column, e.total) for e in plan.edges] == [("rows", "rows")]


def test_a_part_a_column():
    plan = filter_of(f"SELECT MIN(CASE WHEN h.a > 0 THEN q.x ELSE h.b END) AS v {JOIN}")
    assert [(c.column, len(c.slots)) for c in plan.candidates] == [("m_0_0", 1), ("m_0_1", 0)]
    assert plan.slots[plan.candidates[1].flag].needs == ()
    assert "NAMED_STRUCT('c', CAST(h.b AS DOUBLE))" in columns(plan)["m_0_1"]


def test_linear_answers_have_no_candidates():
    plan = filter_of(f"SELECT SUM(h.a * q.x - 1) AS v {JOIN}")
    assert plan.candidates == ()
    assert [e.column for e in plan.edges] == ["rows", "n_0_0", "c_0_0", "w_0_0_0"]


# ---------------------------------------------------------------- folding


def groups(*bodies: str, between: tuple[str, ...] = ()) -> list[int]:
    texts = [f"CREATE CONTINUOUS QUERY q{i} AS {body};" for i, body in enumerate(bodies)]
    both = [part for pair in zip(texts, [*between, *[""] * len(texts)]) for part in pair]
    return [len(g.queries) for g in program("".join(both)).groups()]


TOGETHER = {
    "sums": [f"SELECT SUM({n} * q.x) AS v {JOIN} WHERE h.a > {n} PRECISION v WITHIN {n}" for n in (1, 2)],
    "extrema": [f"SELECT MIN(q.x) AS v {JOIN} WHERE h.s = '{s}' PRECISION v WITHIN 1" for s in "ab"],
    "weights of extrema": [f"SELECT MAX({n} * h.a * q.x) AS v {JOIN} PRECISION v WITHIN 1" for n in (1, 2)],
    "static cases": [f"SELECT MIN(CASE WHEN q.k = {n} THEN x END) AS v FROM q PRECISION v WITHIN 1" for n in (1, 2)],
    "filters": [f"SELECT MIN(q.x) FILTER (WHERE h.a > {n}) AS v {JOIN} PRECISION v WITHIN 1" for n in (1, 2)],
    "mixed": [f"SELECT MIN(q.x) AS v, AVG(q.x) AS w {JOIN} WHERE h.a > {n} PRECISION w WITHIN {n}" for n in (1, 2)],
    "bounded answers": [f"SELECT MIN(x) AS v, AVG(x) AS w FROM q PRECISION {c} WITHIN 1" for c in "vw"],
    "no clause": [f"SELECT MIN(x + {n}) AS v FROM q" for n in (1, 2)],
}
APART = {
    "inside a feature": [f"SELECT MIN(x + {n}) AS v FROM q PRECISION v WITHIN 1" for n in (1, 2)],
    "a factor": [f"SELECT {n} * MIN(x) AS v FROM q PRECISION v WITHIN 1" for n in ("1", "-1")],
    "percent and absolute": [f"SELECT MIN(x) AS v FROM q PRECISION v WITHIN {b}" for b in ("1", "1%")],
    "kinds of promise": [f"SELECT SUM(x) AS v FROM q {clause} v WITHIN 1" for clause in ("PRECISION", "COHERENCY")],
    "with and without a clause": ["SELECT MIN(x) AS v FROM q", "SELECT MIN(x) AS v FROM q PRECISION v WITHIN 1"],
    "emission": [f"SELECT MIN(x) AS v FROM q PRECISION v WITHIN 1 EMIT EVERY INTERVAL {n} HOURS" for n in (1, 2)],
}


@pytest.mark.parametrize("bodies", TOGETHER.values(), ids=TOGETHER)
def test_together(bodies):
    assert groups(*bodies) == [2]


@pytest.mark.parametrize("bodies", APART.values(), ids=APART)
def test_apart(bodies):
    assert groups(*bodies) == [1, 1]


def test_methods_keep_queries_apart_and_settings_alone_do_not():
    body = "SELECT MIN(x) AS v FROM q PRECISION v WITHIN 1"
    assert groups(body, body, between=("SET filters = 'uniform';",)) == [1, 1]
    assert groups(body, body, between=("SET filters = 'uniform'; SET filters = adaptive;",)) == [2]
    assert groups(body, body, between=("SET split = 'naive';",)) == [2]


def test_a_folded_group_reads_its_literals_from_the_table():
    made = program(
        "".join(
            f"CREATE CONTINUOUS QUERY q{n} AS SELECT MIN({n} * h.a * q.x) AS v {JOIN} WHERE h.b > {n} PRECISION v WITHIN {n};"
            for n in (3, 4)
        )
    )
    (first, second) = made.plans()
    sql = first.tree.weights.query.sql("spark")
    assert "CAST(__p.p0 * h.a AS DOUBLE)" in sql and "h.b > __p.p1" in sql and "FROM __params AS __p" in sql
    assert [q.literals for q in first.tree.group.queries] == [(3, 3), (4, 4)]
    assert "<= 4" in second.guarantee and second.tree is first.tree


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("method", ["adaptive", "reference", "uniform", "none"])
def test_the_method_is_the_setting(method):
    made = program(
        f"SET filters = '{method}'; CREATE CONTINUOUS QUERY p AS SELECT MIN(x) AS v FROM q PRECISION v WITHIN 1;"
    )
    (plan,) = made.plans()
    assert plan.tree.method == plan.query.promise.method == plan.json["plan"]["method"] == method
    others = [r["method"] for r in plan.json["rejected"] if r["op"] == "AdaptiveFilter"]
    assert sorted([*others, method]) == ["adaptive", "none", "reference", "uniform"]
    assert [r["op"] for r in plan.json["rejected"]][:2] == ["EmitOnDrift", "SparkExact"]


def test_other_promises_have_no_method():
    assert plan_of("SELECT SUM(x) AS v FROM q", "COHERENCY v WITHIN 1").query.promise.method == ""
    assert plan_of("SELECT SUM(x) AS v FROM q", "").query.promise.method == ""


def test_alter_takes_the_bound_and_the_method_of_now():
    made = program(
        "CREATE CONTINUOUS QUERY p AS SELECT MIN(x) AS v FROM q PRECISION v WITHIN 1;"
        "SET filters = uniform; ALTER CONTINUOUS QUERY p SET PRECISION v WITHIN 0.25;"
    )
    promise = made.queries["p"].promise
    assert (promise.bounds[0].amount, promise.method) == (0.25, "uniform")


# ---------------------------------------------------------------- streams


def stream_of(clauses: str) -> Stream:
    text = f"CREATE STREAM s (K INT, V DOUBLE, Fee DECIMAL(5, 2), site STRING, t INT) KEY (k) TIMESTAMP BY t {clauses};"
    return program(text).catalog.streams["s"]


@pytest.mark.parametrize(
    ("clauses", "cost", "rate"),
    [
        ("", None, None),
        ("OPTIONS (message_cost 'fee', change_rate '2.5')", "fee", 2.5),
        ("OPTIONS (MESSAGE_COST Fee, Change_Rate 'V')", "fee", "v"),
        ("OPTIONS (change_rate = 0)", None, 0.0),
        ("OPTIONS (change_rate 1e3) USING csv", None, 1000.0),
        ("USING csv OPTIONS (message_cost 'FEE', path 'x', header 'true', change_rate 'v')", "fee", "v"),
    ],
)
def test_options_of_a_stream(clauses, cost, rate):
    stream = stream_of(clauses)
    assert (stream.message_cost, stream.change_rate) == (cost, rate)
    assert dict(stream.options) == ({"path": "x", "header": "true"} if "path" in clauses else {})
    assert stream.format == ("csv" if "USING" in clauses else None)


# ---------------------------------------------------------------- what EXPLAIN says

KNOWN = FilterStatistics(
    ticks=100,
    updates=1200,
    items=12,
    groups=3,
    edges=14,
    components=2,
    fixed=1,
    composites=2,
    widths=(("k=1, x", 0.5, 0.25), ("k=2, x", 1.25, 0.125)),
    budgets=(("g=1", 4.75, 5.0),),
    messages=180.4,
    control=19.6,
    uniform=250.0,
    baseline=1000.0,
    analysed=False,
)


def explained(known: FilterStatistics | None, text: str = "") -> deadband.Plan:
    made = program(f"{text} CREATE CONTINUOUS QUERY p AS SELECT AVG(q.x) AS v {JOIN} PRECISION v WITHIN 5;")
    (plan,) = made.plans(lambda group: known)
    return plan


def test_statistics_become_figures():
    found = explained(KNOWN).json
    assert found["plan"]["estimate"] == {
        "ticks": 100,
        "updates": 1200,
        "items": 12,
        "groups": 3,
        "messages": 180,
        "control": 20,
        "uniform": 250,
        "baseline": 1000,
        "saving_vs_uniform": 0.2,
        "saving_vs_none": 0.8,
    }
    detail = found["plan"]["detail"]
    assert detail["widths"] == ["k=1, x: 0.5, 0.25 messages a tick", "k=2, x: 1.25, 0.125 messages a tick"]
    assert detail["budgets"] == ["g=1: 4.75 of 5"]
    assert detail["fixed"] == "1 of 12 items keep one width"
    assert detail["composites"] == "2 items put together at their site"
    assert found["plan"]["children"][1]["estimate"] == {"items": 12, "groups": 3, "edges": 14}
    assert found["assumed"] == ["items go on moving as in the stream's own source"]


def test_losers_have_an_estimate_where_it_is_known():
    found = explained(KNOWN)
    estimates = {r["method"]: r["estimate"] for r in found.json["rejected"]}
    assert estimates["uniform"] == {"messages": 250, "control": 0}
    assert estimates["none"] == {"messages": 1000, "control": 0}
    assert estimates["reference"] == {}
    assert (
        "AdaptiveFilter (none): every update that matters would be sent; estimate: messages 1,000, control 0"
        in found.text
    )


def test_nothing_to_save_is_no_saving():
    quiet = FilterStatistics(1, 0, 0, 0, 0, 0, 0, 0, (), (), 0.0, 0.0, 0.0, 0.0, analysed=True)
    found = explained(quiet).json
    assert (found["plan"]["estimate"]["saving_vs_uniform"], found["plan"]["estimate"]["saving_vs_none"]) == (0.0, 0.0)
    assert found["assumed"] == ["items go on moving as in the analysed history"]


def test_without_statistics_rates_are_equal():
    found = explained(None).json
    assert found["plan"]["estimate"] == {}
    assert found["plan"]["detail"]["widths"] == "equal rates are assumed: every item gets the same width"
    assert found["assumed"][-1] == "equal rates: every item gets the same width"


@pytest.mark.parametrize(
    ("answers", "clause", "said"),
    [
        ("AVG(x) AS v", "v WITHIN 5", "truth in [low, high] and high - low <= 5 at every closed tick"),
        ("MIN(x) AS v", "WITHIN 5%", "truth in [low, high] and high - low <= 5% of min(abs(low), abs(high)) at every closed tick"),
        ("AVG(x) AS v, COUNT(*) AS n", "v WITHIN 5", "truth of v in [low, high] and high - low <= 5; n exact at every closed tick"),
        (
            "MIN(x) AS v, MAX(x) AS w",
            "v WITHIN 5, w WITHIN 1%",
            "truth of v in [v_low, v_high] and v_high - v_low <= 5;"
            " truth of w in [w_low, w_high] and w_high - w_low <= 1% of min(abs(w_low), abs(w_high)) at every closed tick",
        ),
        (
            "AVG(x) AS v",
            "v WITHIN 5 EMIT EVERY INTERVAL 1 MINUTE",
            "truth in [low, high] and high - low <= 5 whenever it is emitted, every 60 s",
        ),
    ],
)  # fmt: skip
def test_the_guarantee_in_words(answers, clause, said):
    assert plan_of(f"SELECT {answers} FROM q", f"PRECISION {clause}").guarantee == said
