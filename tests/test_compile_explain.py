"""EXPLAIN JSON keeps its schema, whatever the shape; text, Mermaid and HTML say the same."""

import json
from html.parser import HTMLParser

import pytest

import deadband

DECLARED = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM other (symbol STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE);
"""
BODIES = {
    "linear with a clause": "SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN 0.5% FIDELITY 98% OVER INTERVAL 1 DAY",
    "linear with a table": "SELECT h.account, AVG(q.price * h.shares) AS v FROM quotes q JOIN holdings h USING (symbol) GROUP BY 1 COHERENCY v WITHIN 5",
    "linear": "SELECT COUNT(*) AS n FROM quotes",
    "linear with an interval": "SELECT SUM(price) AS v, COUNT(*) AS n FROM quotes PRECISION v WITHIN 0.5%",
    "extremum": "SELECT MAX(price) AS v FROM quotes",
    "extremum with intervals": "SELECT MAX(price) AS v, AVG(risk) AS m FROM quotes PRECISION v WITHIN 5, m WITHIN 1%",
    "range aggregate": "SELECT MIN(price) AS v FROM quotes WHERE risk > 5",
    "range select": "SELECT symbol FROM quotes WHERE risk BETWEEN 1 AND 2",
    "band join": "SELECT q.symbol FROM quotes q JOIN other o ON ABS(q.price - o.price) < 1",
    "select join": "SELECT q.symbol FROM quotes q JOIN other o ON q.symbol = o.symbol AND q.risk > 1",
    "equi join": "SELECT q.symbol FROM quotes q JOIN other o ON q.symbol = o.symbol",
    "exact": "SELECT symbol FROM quotes UNION SELECT symbol FROM other",
    "emitted": "SELECT SUM(price) AS v FROM other EMIT EVERY INTERVAL '5' MINUTES",
}


def plan_of(body: str) -> deadband.Plan:
    (plan,) = deadband.compile(f"{DECLARED} CREATE CONTINUOUS QUERY Total AS {body};")
    return plan


@pytest.fixture(params=BODIES.values(), ids=BODIES)
def plan(request) -> deadband.Plan:
    return plan_of(request.param)


def test_json_has_the_keys_of_version_1_and_no_others(plan):
    found = plan.json
    assert list(found) == ["version", "query", "guarantee", "assumed", "shape", "plan", "rejected"]
    assert (found["version"], found["query"]) == (1, "Total")
    assert isinstance(found["guarantee"], str) and found["guarantee"]
    assert all(isinstance(text, str) for text in found["assumed"])
    assert isinstance(found["shape"]["name"], str)
    check_node(found["plan"])
    for rejected in found["rejected"]:
        assert list(rejected) == ["op", "method", "reason", "estimate"]
        assert rejected["reason"] and isinstance(rejected["estimate"], dict)


def check_node(node: dict) -> None:
    assert list(node) == ["op", "method", "detail", "estimate", "children"]
    assert isinstance(node["op"], str) and isinstance(node["method"], str)
    assert isinstance(node["detail"], dict) and isinstance(node["estimate"], dict)
    for child in node["children"]:
        check_node(child)


def test_json_is_json(plan):
    assert json.loads(json.dumps(plan.json)) == plan.json


def test_measured_stands_beside_estimated():
    plan = plan_of(BODIES["linear with a clause"]).with_measured({"reported": 7})
    assert plan.json["plan"]["measured"] == {"reported": 7}
    assert "measured" in plan.text and "7" in plan.text and "measured" in plan.mermaid and "measured" in plan.html


def test_text_says_promise_shape_and_operator(plan):
    found = plan.json
    assert plan.text.startswith("Total\n")
    for said in (found["guarantee"], found["shape"]["name"], f"{found['plan']['op']} ("):
        assert said in plan.text
    assert all(r["reason"] in plan.text for r in found["rejected"])


def test_mermaid_is_a_tree_that_ends_in_the_query(plan):
    head, query, *nodes = plan.mermaid.split("\n")
    assert head == "flowchart BT"
    assert query.startswith('  q["Total<br/>')
    assert len(nodes) == count(plan.json["plan"])
    assert all(node.count('"') == 2 and "-->" in node for node in nodes)


def count(node: dict) -> int:
    return 1 + sum(count(child) for child in node["children"])


def test_html_is_closed(plan):
    opened: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag, attrs):
            opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

        def handle_startendtag(self, tag, attrs):
            pass

    Check().feed(plan._repr_html_())
    assert not opened


def test_nothing_is_rendered_before_it_is_asked_for():
    plan = plan_of(BODIES["linear"])
    assert repr(plan).startswith("Plan(") and len(repr(plan)) < 200


def test_str_is_in_the_format_asked_for():
    plan = plan_of(BODIES["linear"])
    assert str(plan) == plan.text
