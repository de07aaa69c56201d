"""Program: the catalog and the continuous queries that the statements so far have built, and their plans.

deadband.compile runs a whole text through it; a Connection keeps one and adds what Spark knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from deadband.compiler import ast
from deadband.compiler.bind import Templates, bind, not_supported_yet, stream_of
from deadband.compiler.bind.body import parse_sql, span_of, too_deep
from deadband.compiler.bind.history import history_query
from deadband.compiler.bind.names import name_of, tables_read
from deadband.compiler.catalog import Catalog, Table
from deadband.compiler.errors import DeadbandError, did_you_mean, misspelt
from deadband.compiler.explain import Plan
from deadband.compiler.logical import Group, Query
from deadband.compiler.lower import Choice, lower
from deadband.compiler.parse import parse
from deadband.compiler.passes import run_passes
from deadband.compiler.statistics import FilterStatistics, Known
from deadband.grammar import SPARK_HEADS, STATEMENT_HEADS

__all__ = ["Program", "compile_text"]

_ASSUMED = "no statistics: nothing is known of how often and how far the items move"
_EQUAL_WIDTHS = "equal rates: every item gets the same width"
_OWN_SOURCE = "the stream's own source"
_LIKE_ADAPTIVE = "the reference method settles where the adaptive one does"


def compile_text(sql: str, tables: dict[str, dict[str, str] | None] | None = None, name: str = "<sql>") -> list[Plan]:
    """The plans of a text's continuous queries, in order of their names' first appearance."""
    program = Program(Catalog(tables))
    for statement in parse(sql, name):
        program.add(statement)
    return program.plans()


class Program:
    """What the statements so far have declared."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        self.queries: dict[str, Query] = {}
        self._written: dict[str, ast.Query] = {}
        self._templates = Templates()

    def add(self, statement: ast.Statement) -> None:
        """Runs what a statement means to the compiler."""
        _ADD[type(statement)](self, statement)

    def bind(self, name: str, query: ast.Query) -> Query:
        return bind(name, query, self.catalog, self._templates)

    def groups(self) -> list[Group]:
        """The queries as they run: folded."""
        return run_passes(list(self.queries.values()))

    def plans(self, statistics: Callable[[Group], Known | None] = lambda group: None) -> list[Plan]:
        """One plan per continuous query."""
        found: dict[str, Plan] = {}
        for group in self.groups():
            first = _planned(group, group.first, statistics)
            found |= {query.name.lower(): replace(first, query=query) for query in group.queries}
        return [found[name] for name in self.queries]

    def plan(self, query: Query, statistics: Callable[[Group], Known | None] = lambda group: None) -> Plan:
        """The plan of a query on its own."""
        return _planned(Group((query,)), query, statistics)

    def query(self, name: ast.Name) -> Query:
        """The continuous query of that name, or an error that names the nearest."""
        if name.key not in self.queries:
            hint = did_you_mean(name.text, (q.name for q in self.queries.values()))
            hint = hint or "SHOW CONTINUOUS QUERIES lists what there is"
            raise DeadbandError(f"unknown continuous query {name.text}", name.span, hint=hint)
        return self.queries[name.key]

    # one method per statement

    def _create_stream(self, statement: ast.CreateStream) -> None:
        name = statement.name
        if name.key in self.catalog.streams or name.key in self.catalog.tables:
            if statement.if_not_exists:
                return
            is_stream = name.key in self.catalog.streams
            what = f"stream {name.text} exists already" if is_stream else f"{name.text} is a table already"
            hint = "DROP STREAM it first, or use IF NOT EXISTS" if is_stream else "give the stream another name"
            raise DeadbandError(what, name.span, hint=hint)
        self.catalog.add_stream(stream_of(statement))

    def _create_query(self, statement: ast.CreateQuery) -> None:
        name = statement.name
        if name.key in self.queries and not statement.or_replace:
            if statement.if_not_exists:
                return
            raise DeadbandError(
                f"continuous query {name.text} exists already",
                name.span,
                hint="DROP CONTINUOUS QUERY it first, or CREATE OR REPLACE CONTINUOUS QUERY",
            )
        self.queries[name.key] = self.bind(name.text, statement.query)
        self._written[name.key] = statement.query

    def _alter_query(self, statement: ast.AlterQuery) -> None:
        query = self.query(statement.name)
        written = self._written[statement.name.key]
        if written.clause(type(statement.clause)) is None and isinstance(
            statement.clause, ast.Coherency | ast.Precision
        ):
            raise DeadbandError(
                f"{query.name} has no {type(statement.clause).__name__.upper()} to change",
                statement.clause.span,
                hint="create the query anew to promise something else",
            )
        kept = tuple(c for c in written.clauses if type(c) is not type(statement.clause))
        altered = replace(written, clauses=(*kept, statement.clause))
        self.queries[statement.name.key] = self.bind(query.name, altered)
        self._written[statement.name.key] = altered

    def _drop(self, statement: ast.Drop) -> None:
        name = statement.name
        if statement.kind == "AGGREGATOR":
            raise not_supported_yet("DROP AGGREGATOR", statement.span)
        if statement.kind == "CONTINUOUS QUERY":
            if name.key in self.queries or not statement.if_exists:
                self.query(name)
                del self.queries[name.key], self._written[name.key]
            return
        if name.key not in self.catalog.streams and statement.if_exists:
            return
        stream = self.catalog.stream(name)
        readers = [q.name for q in self.queries.values() if stream in q.body.streams]
        if readers:
            more = f" and {len(readers) - 3} more" if len(readers) > 3 else ""
            what = f"{stream.name} is read by {', '.join(readers[:3])}{more}"
            raise DeadbandError(what, name.span, hint="drop the continuous queries first")
        self.catalog.drop_stream(name.text)

    def _set(self, statement: ast.SetSetting) -> None:
        self.catalog.set(statement)

    def _show(self, statement: ast.Show) -> None:
        if statement.what == "AGGREGATORS":
            raise not_supported_yet("SHOW AGGREGATORS", statement.span)

    def _explain(self, statement: ast.Explain) -> None:
        self.explained(statement)

    def explained(
        self, statement: ast.Explain, statistics: Callable[[Group], Known | None] = lambda group: None
    ) -> Plan:
        """The plan an EXPLAIN asks for; nothing is registered."""
        target = statement.target
        if isinstance(target, ast.Name):
            query = self.query(target)
            (group,) = [g for g in self.groups() if any(q is query for q in g.queries)]
            plan = _planned(group, query, statistics)
        elif isinstance(target, ast.CreateQuery):
            plan = self.plan(self.bind(target.name.text, target.query), statistics)
        else:
            self._check_named(target)
            plan = self.plan(self.bind("query", target), statistics)
        return replace(plan, format=statement.format, verbose=statement.verbose)

    def _check_named(self, query: ast.Query) -> None:
        """EXPLAIN total: a name is not a query."""
        text = query.body.text
        if text.lower() in self.queries:
            raise DeadbandError(f"{text} is a name", query.body.span, hint=f"write EXPLAIN CONTINUOUS QUERY {text}")
        if re.match(r"FORMAT\b|VERBOSE\b", text, re.I):
            raise DeadbandError("options of EXPLAIN go into ( )", query.body.span, hint="write EXPLAIN (FORMAT JSON) …")
        if re.match(r"CREATE\b|DROP\b|ALTER\b|SHOW\b", text, re.I):
            hint = "EXPLAIN takes a SELECT, a CREATE CONTINUOUS QUERY or CONTINUOUS QUERY name"
            raise DeadbandError("only queries can be explained", query.body.span, hint=hint)

    def _spark_sql(self, statement: ast.SparkSql) -> None:
        """Tables and views that plain Spark SQL declares, as far as the text tells their columns."""
        tree = _spark_statement(statement)
        made = _made_by(tree)
        for table in tables_read(tree):
            if name_of(table) in self.catalog.streams:
                raise self._reads_a_stream(statement, tree, table, table is made)
        if made is not None and isinstance(tree, exp.Create):
            self.catalog.add_table(Table(name_of(made), _columns_of(tree)))
        elif isinstance(tree, exp.Drop):
            for table in tree.find_all(exp.Table):
                self.catalog.forget_table(name_of(table))

    def _reads_a_stream(self, statement: ast.SparkSql, tree: exp.Expr, table: exp.Table, made: bool) -> DeadbandError:
        span = span_of(table.this, statement.sql)
        if made:
            return DeadbandError(f"{table.name} is a stream already", span, hint="give the table another name")
        if isinstance(tree, exp.Drop):
            return DeadbandError(f"{table.name} is a stream", span, hint=f"write DROP STREAM {table.name}")
        if table.find_ancestor(exp.Query) is None:
            hint = "its rows come from its source, or from the frames given to replay or start"
            return DeadbandError(f"{table.name} is a stream, not a table", span, hint=hint)
        return DeadbandError(
            f"{table.name} is a stream: only a continuous query can read it",
            span,
            hint="write CREATE CONTINUOUS QUERY name AS SELECT …, or EXPLAIN SELECT …",
        )

    def _later(self, statement: ast.Statement) -> None:
        what = {
            ast.CreateAggregator: "CREATE AGGREGATOR",
            ast.CreateAggregators: "CREATE AGGREGATORS",
        }[type(statement)]
        stream = statement.stream  # type: ignore[union-attr]
        self.catalog.stream(stream)
        raise not_supported_yet(what, statement.span)

    def history(self, statement: ast.AnalyzeStream) -> exp.Query | None:
        """The rows that ANALYZE STREAM looks at: a query over tables, or None for the stream's own source."""
        return history_query(statement, self.catalog)

    def _refresh(self, statement: ast.RefreshTable) -> None:
        if self.catalog.relation(statement.table.text) is None:
            hint = did_you_mean(statement.table.text, self.catalog.names())
            raise DeadbandError(f"unknown table {statement.table.text}", statement.table.span, hint=hint)
        if statement.table.key in self.catalog.streams:
            what = f"{statement.table.text} is a stream, not a static table"
            raise DeadbandError(what, statement.table.span, hint="a stream is fresh at every tick")


_ADD: dict[type, Callable] = {
    ast.CreateStream: Program._create_stream,
    ast.CreateQuery: Program._create_query,
    ast.AlterQuery: Program._alter_query,
    ast.Drop: Program._drop,
    ast.SetSetting: Program._set,
    ast.Show: Program._show,
    ast.Explain: Program._explain,
    ast.SparkSql: Program._spark_sql,
    ast.RefreshTable: Program._refresh,
    ast.CreateAggregator: Program._later,
    ast.CreateAggregators: Program._later,
    ast.AnalyzeStream: Program.history,
}


def assumptions(choice: Choice, statistics: Known | None) -> tuple[str, ...]:
    if choice.operator.op == "SparkExact":
        return ()
    if statistics is None:
        filtered = choice.operator.op == "AdaptiveFilter"
        return (_ASSUMED, _EQUAL_WIDTHS if filtered else "equal rates: a group reports at most one row a tick")
    if isinstance(statistics, FilterStatistics):
        moving = f"items go on moving as in {'the analysed history' if statistics.analysed else _OWN_SOURCE}"
        return (moving, _LIKE_ADAPTIVE) if choice.operator.method == "reference" else (moving,)
    walks = f"answers move as random walks, with the moments of {_OWN_SOURCE}"
    return (walks,) if statistics.paired else (walks, "items move independently of each other")


def _planned(group: Group, query: Query, statistics: Callable[[Group], Known | None]) -> Plan:
    known = statistics(group)
    try:
        choice = lower(group, known)
    except RecursionError:
        raise too_deep(group.first.template.sql) from None
    return Plan(query, choice, assumptions(choice, known))


def _spark_statement(statement: ast.SparkSql) -> exp.Expr:
    """The sqlglot tree of a plain Spark statement; a misspelt statement of ours is pointed out."""
    try:
        tree = parse_sql(statement.sql, clauses={})
    except DeadbandError as error:
        raise _meant(statement) or error from None
    if isinstance(tree, _SPARK_STATEMENTS):
        return tree
    meant = _meant(statement)
    if meant is not None:
        raise meant
    if isinstance(tree, exp.Condition | exp.Alias):
        word = statement.sql.text.split()[0]
        hint = f"statements begin with {', '.join(sorted({h.split()[0] for h in (*STATEMENT_HEADS, *SPARK_HEADS)}))}"
        raise DeadbandError(f"{word} does not begin a statement", statement.span.within(0, len(word)), hint=hint)
    return tree


_SPARK_STATEMENTS = (exp.Query, exp.DDL, exp.DML, exp.Set, exp.Describe, exp.Use, exp.Drop, exp.Cache)


def _meant(statement: ast.SparkSql) -> DeadbandError | None:
    """The statement of which this looks like a misspelling."""
    found = list(re.finditer(r"[^\s(),;]+", statement.sql.text))[:4]
    words = [w[0].upper() for w in found]
    heads = (*STATEMENT_HEADS, *SPARK_HEADS)
    if any(words[: len(h.split())] == h.split() for h in heads):
        return None
    half = next((h for h in STATEMENT_HEADS if len(h.split()) == 3 and words[:2] == h.split()[:2]), None)
    if words[:4] == ["CREATE", "OR", "REPLACE", "STREAM"]:
        half = "DROP STREAM and CREATE STREAM"
    meant = (half, 0) if half is not None else misspelt(words, heads)
    if meant is None:
        return None
    end = found[min(len(meant[0].split()), len(found)) - 1].end()
    span = statement.span.within(0, end)
    return DeadbandError(f"unknown statement {' '.join(span.text.split())}", span, hint=f"did you mean {meant[0]}?")


def _made_by(tree: exp.Expr) -> exp.Table | None:
    """The table or view that a statement makes."""
    if not isinstance(tree, exp.Create) or str(tree.args.get("kind") or "").upper() not in ("TABLE", "VIEW"):
        return None
    made = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return made if isinstance(made, exp.Table) else None


def _columns_of(tree: exp.Create) -> dict[str, str] | None:
    """The columns of CREATE TABLE t (a INT, …) or of CREATE VIEW v AS SELECT …; None where the text does not tell."""
    if isinstance(tree.this, exp.Schema):
        found = {c.name: c.args["kind"].sql("spark") for c in tree.this.expressions if c.args.get("kind")}
        return found or None
    body = tree.expression
    if isinstance(body, exp.Query):
        try:
            if not body.is_star and all(body.named_selects):
                return dict.fromkeys(body.named_selects, "unknown")
        except SqlglotError:
            return None
    return None
