"""Program: the catalog and the continuous queries that the statements so far have built, and their plans.

deadband.compile runs a whole text through it; a Connection keeps one and adds what Spark knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from deadband.compiler import ast
from deadband.compiler.bind import Templates, bind, not_supported_yet, stream_of
from deadband.compiler.bind.body import parse_sql
from deadband.compiler.catalog import Catalog, Table
from deadband.compiler.errors import DeadbandError, did_you_mean, nearest
from deadband.compiler.explain import Plan
from deadband.compiler.logical import Group, Query
from deadband.compiler.lower import Choice, lower
from deadband.compiler.parse import parse
from deadband.compiler.passes import run_passes
from deadband.compiler.statistics import Statistics
from deadband.grammar import STATEMENT_HEADS

__all__ = ["Program", "compile_text"]

_ASSUMED = "no statistics: nothing is known of how often and how far the items move"


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

    def plans(self, statistics: Callable[[Group], Statistics | None] = lambda group: None) -> list[Plan]:
        """One plan per continuous query."""
        found: dict[str, Plan] = {}
        for group in self.groups():
            known = statistics(group)
            choice = lower(group, known)
            for query in group.queries:
                found[query.name.lower()] = Plan(query, choice, assumptions(choice, known))
        return [found[name] for name in self.queries]

    def plan(self, query: Query, statistics: Callable[[Group], Statistics | None] = lambda group: None) -> Plan:
        """The plan of a query on its own."""
        group = Group((query,))
        known = statistics(group)
        choice = lower(group, known)
        return Plan(query, choice, assumptions(choice, known))

    def query(self, name: ast.Name) -> Query:
        """The continuous query of that name, or an error that names the nearest."""
        if name.key not in self.queries:
            hint = did_you_mean(name.text, (q.name for q in self.queries.values()))
            raise DeadbandError(f"unknown continuous query {name.text}", name.span, hint=hint)
        return self.queries[name.key]

    # one method per statement

    def _create_stream(self, statement: ast.CreateStream) -> None:
        if statement.name.key in self.catalog.streams or statement.name.key in self.catalog.tables:
            if statement.if_not_exists:
                return
            raise DeadbandError(
                f"{statement.name.text} exists already", statement.name.span, hint="DROP STREAM it first, or use IF NOT EXISTS"
            )
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
        if written.clause(type(statement.clause)) is None and isinstance(statement.clause, ast.Coherency | ast.Precision):
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
            raise DeadbandError(
                f"{stream.name} is read by {', '.join(readers[:3])}", name.span, hint="drop the continuous queries first"
            )
        self.catalog.drop_stream(name.text)

    def _set(self, statement: ast.SetSetting) -> None:
        self.catalog.set(statement)

    def _show(self, statement: ast.Show) -> None:
        if statement.what == "AGGREGATORS":
            raise not_supported_yet("SHOW AGGREGATORS", statement.span)

    def _explain(self, statement: ast.Explain) -> None:
        self.explained(statement)

    def explained(self, statement: ast.Explain, statistics: Callable[[Group], Statistics | None] = lambda group: None) -> Plan:
        """The plan an EXPLAIN asks for; nothing is registered."""
        target = statement.target
        if isinstance(target, ast.Name):
            query = self.query(target)
            (plan,) = [p for p in self.plans(statistics) if p.query is query]
        elif isinstance(target, ast.CreateQuery):
            plan = self.plan(self.bind(target.name.text, target.query), statistics)
        else:
            plan = self.plan(self.bind("query", target), statistics)
        return replace(plan, format=statement.format, verbose=statement.verbose)

    def _spark_sql(self, statement: ast.SparkSql) -> None:
        """Tables and views that plain Spark SQL declares, as far as the text tells their columns."""
        tree = _spark_statement(statement)
        kind = str(tree.args.get("kind") or "").upper()
        if isinstance(tree, exp.Create) and kind in ("TABLE", "VIEW"):
            name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
            key = ".".join(p.name for p in name.parts).lower()
            if key in self.catalog.streams:
                raise DeadbandError(f"{key} is a stream already", statement.span)
            self.catalog.add_table(Table(key, _columns_of(tree)))
        elif isinstance(tree, exp.Drop) and kind in ("TABLE", "VIEW"):
            self.catalog.forget_table(".".join(p.name for p in tree.this.parts))
        elif isinstance(tree, exp.Query):
            for table in tree.find_all(exp.Table):
                if table.name.lower() in self.catalog.streams:
                    raise DeadbandError(
                        f"{table.name} is a stream: only a continuous query can read it",
                        statement.span,
                        hint="write CREATE CONTINUOUS QUERY name AS SELECT …, or EXPLAIN SELECT …",
                    )

    def _later(self, statement: ast.Statement) -> None:
        what = {
            ast.CreateAggregator: "CREATE AGGREGATOR",
            ast.CreateAggregators: "CREATE AGGREGATORS",
            ast.AnalyzeStream: "ANALYZE STREAM",
        }[type(statement)]
        stream = statement.stream  # type: ignore[union-attr]
        self.catalog.stream(stream)
        raise not_supported_yet(what, statement.span)

    def _refresh(self, statement: ast.RefreshTable) -> None:
        if self.catalog.relation(statement.table.text) is None:
            hint = did_you_mean(statement.table.text, self.catalog.names())
            raise DeadbandError(f"unknown table {statement.table.text}", statement.table.span, hint=hint)
        if statement.table.key in self.catalog.streams:
            raise DeadbandError(f"{statement.table.text} is a stream, not a static table", statement.table.span)


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
    ast.AnalyzeStream: Program._later,
}


def assumptions(choice: Choice, statistics: Statistics | None) -> tuple[str, ...]:
    if choice.operator.op != "EmitOnDrift":
        return ()
    if statistics is None:
        return (_ASSUMED, "equal rates: a group reports at most one row a tick")
    return ("items move independently of each other, as random walks with the moments of the stream's own source",)


def _spark_statement(statement: ast.SparkSql) -> exp.Expression:
    """The sqlglot tree of a plain Spark statement; a misspelt statement of ours is pointed out."""
    try:
        tree = parse_sql(statement.sql)
    except DeadbandError as error:
        raise _meant(statement) or error from None
    if isinstance(tree, exp.Command):
        meant = _meant(statement)
        if meant is not None:
            raise meant
    elif not isinstance(tree, exp.Query | exp.DDL | exp.DML | exp.Set | exp.Describe | exp.Use | exp.Drop | exp.Cache):
        meant = _meant(statement)
        if meant is not None or not isinstance(tree, exp.Expression) or isinstance(tree, exp.Condition | exp.Alias):
            words = statement.sql.text.split()
            raise meant or DeadbandError(f"{words[0]} does not begin a statement", statement.span.within(0, len(words[0])))
    return tree


def _meant(statement: ast.SparkSql) -> DeadbandError | None:
    words = statement.sql.text.split()
    for count in (3, 2, 1):
        head = " ".join(words[:count])
        near = [h for h in nearest(head, STATEMENT_HEADS, cutoff=0.8) if len(h.split()) == count]
        if near and head.upper() not in STATEMENT_HEADS:
            span = statement.span.within(0, statement.sql.text.find(words[count - 1]) + len(words[count - 1]))
            return DeadbandError(f"unknown statement {head}", span, hint=f"did you mean {near[0]}?")
    return None


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
