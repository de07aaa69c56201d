"""What statements do to each other: names, order, replacing, dropping, altering; and places in odd texts."""

import pytest

import deadband
from deadband.compiler.catalog import Catalog
from deadband.compiler.parse import parse
from deadband.compiler.program import Program

STREAM = "CREATE STREAM Quotes (Symbol STRING, Price DOUBLE, at TIMESTAMP) KEY (Symbol) TIMESTAMP BY at;\n"


def names(text: str, **tables) -> list[str]:
    return [plan.name for plan in deadband.compile(text, tables=tables)]


def error_of(text: str) -> deadband.DeadbandError:
    with pytest.raises(deadband.DeadbandError) as caught:
        deadband.compile(text)
    return caught.value


def test_plans_come_in_the_order_of_the_queries():
    texts = [f"CREATE CONTINUOUS QUERY {n} AS SELECT SUM(price) AS v FROM quotes WHERE symbol > '{n}';" for n in "Bca"]
    assert names(STREAM + "".join(texts)) == ["B", "c", "a"]


def test_no_queries_no_plans():
    assert names("") == names(STREAM) == names("-- nothing") == []


def test_names_compare_without_case_and_keep_their_spelling():
    (plan,) = deadband.compile(
        STREAM
        + "CREATE CONTINUOUS QUERY MyTotal AS SELECT SYMBOL, SUM(price) AS Value FROM QUOTES q GROUP BY q.symbol COHERENCY vALUE WITHIN 5;"
    )
    assert plan.name == "MyTotal"
    assert plan.query.body.columns == ("SYMBOL", "Value")
    assert "abs(Value - truth) <= 5" in plan.guarantee
    scan = plan.json["plan"]["children"][0]["detail"]
    assert (scan["stream"], scan["key"], scan["time"]) == ("Quotes", ["Symbol"], "at")


def test_or_replace_and_if_not_exists():
    create = "CREATE {} AS SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN {};"
    text = STREAM + create.format("CONTINUOUS QUERY t", 1)
    assert "<= 1 " in deadband.compile(text + create.format("CONTINUOUS QUERY IF NOT EXISTS t", 2))[0].guarantee
    assert "<= 2 " in deadband.compile(text + create.format("OR REPLACE CONTINUOUS QUERY t", 2))[0].guarantee
    assert names(text + STREAM.replace("STREAM", "STREAM IF NOT EXISTS", 1)) == ["t"]


def test_drop_and_create_again():
    query = "CREATE CONTINUOUS QUERY t AS SELECT SUM(price) AS v FROM quotes;"
    assert names(STREAM + query + "DROP CONTINUOUS QUERY T; DROP STREAM quotes;" + STREAM + query) == ["t"]
    assert names("DROP STREAM IF EXISTS nothing; DROP CONTINUOUS QUERY IF EXISTS nothing;") == []


def test_alter_changes_one_clause_and_keeps_the_others():
    query = "CREATE CONTINUOUS QUERY t AS SELECT SUM(price) AS v FROM quotes COHERENCY v WITHIN 1 FIDELITY 98%;"
    (plan,) = deadband.compile(STREAM + query + "ALTER CONTINUOUS QUERY T SET COHERENCY v WITHIN 2;")
    assert "<= 2 " in plan.guarantee and "98%" in plan.guarantee
    (plan,) = deadband.compile(STREAM + query + "ALTER CONTINUOUS QUERY t SET FIDELITY 90%;")
    assert "<= 1 " in plan.guarantee and "90%" in plan.guarantee
    (plan,) = deadband.compile(STREAM + query + "ALTER CONTINUOUS QUERY t SET EMIT EVERY INTERVAL 1 HOUR;")
    assert "98%" in plan.guarantee and "every 3600 s" in plan.guarantee


def test_explain_registers_nothing():
    assert names(STREAM + "EXPLAIN CREATE CONTINUOUS QUERY t AS SELECT SUM(price) AS v FROM quotes;") == []


def test_tables_from_the_text_from_the_caller_and_without_columns():
    query = "CREATE CONTINUOUS QUERY t AS SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h USING (symbol) GROUP BY h.account;"
    columns = {"account": "string", "symbol": "string", "shares": "double"}
    assert names(STREAM + query, holdings=columns) == ["t"]
    assert names(STREAM + query, Holdings=columns) == ["t"]
    assert names(STREAM + query, holdings=None) == ["t"]
    assert names(STREAM + "CREATE TABLE holdings USING csv OPTIONS (path 'x');" + query) == ["t"]
    assert names(STREAM + "CREATE TABLE holdings (account STRING, symbol STRING, shares INT);" + query) == ["t"]
    assert names(
        STREAM + "CREATE OR REPLACE TEMP VIEW holdings AS SELECT 'a' AS account, 's' AS symbol, 1 AS shares;" + query
    ) == ["t"]
    assert error_of(STREAM + query).message == "unknown stream or table holdings"
    assert (
        error_of(STREAM + "CREATE TABLE holdings (symbol STRING, shares INT);" + query).message
        == "unknown column account"
    )
    assert (
        error_of(STREAM + "CREATE TABLE holdings USING csv; DROP TABLE holdings;" + query).message
        == "unknown stream or table holdings"
    )


def test_a_table_in_a_database():
    query = "CREATE CONTINUOUS QUERY t AS SELECT SUM(h.w * q.price) AS v FROM quotes q JOIN main.h h USING (symbol);"
    assert names(STREAM + "CREATE TABLE main.h (symbol STRING, w DOUBLE);" + query) == ["t"]


def test_settings_are_checked_and_kept():
    program = Program(Catalog())
    for statement in parse("SET Split = 'MIN-COST'; SET route = probe; SET spark.sql.shuffle.partitions = 5;"):
        program.add(statement)
    assert (program.catalog.settings["split"], program.catalog.settings["route"]) == ("min-cost", "probe")


def test_carriage_returns():
    text = (
        STREAM
        + "-- a comment; (\nCREATE CONTINUOUS QUERY t AS\n  SELECT SUM(price) AS v\n  FROM quotes -- of it\n  COHERENCY v\n    WITHIN 5;\n"
    )
    assert names(text.replace("\n", "\r\n")) == ["t"]
    error = error_of(text.replace("price)", "prise)").replace("\n", "\r\n"))
    assert (error.span.line, error.span.column, error.span.text) == (4, 14, "prise")
    assert "\r" not in str(error)


def test_places_count_characters_as_python_does():
    error = error_of(STREAM + "CREATE CONTINUOUS QUERY `𝔘値é` AS SELECT '値' AS 𝔘, SUM(prise) AS v FROM quotes;")
    assert error.span.text == "prise"
    caret = str(error).split("\n")[2]
    assert len(caret) - len(caret.lstrip("| ")) > error.span.column  # wide characters take two columns


def test_a_message_names_the_file():
    with pytest.raises(deadband.DeadbandError) as caught:
        deadband.compile("SELECT FROM;\nSHOW STREMS;", name="my/file.sql")
    assert str(caught.value).startswith("my/file.sql:")


def test_only_the_first_mistake_is_told_and_nothing_runs():
    error = error_of("CREATE STREAM s (a STRIN, t INT) TIMESTAMP BY t; CREATE CONTINUOUS QUERY q AS SELECT b FROM s;")
    assert error.message == "unknown type STRIN"


def test_a_string_with_a_doubled_quote_is_one_string():
    condition = "symbol = 'it''s' OR symbol = " + '"say ""x"""'
    (plan,) = deadband.compile(
        STREAM + f"CREATE CONTINUOUS QUERY t AS SELECT SUM(price) AS v FROM quotes WHERE {condition};"
    )
    assert plan.query.literals == ("it's", 'say "x"')
