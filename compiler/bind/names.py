"""Names in a body: relations, columns and outputs, each against what there is."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from deadband.compiler import ast
from deadband.compiler.bind.place import span_of
from deadband.compiler.catalog import Catalog, Stream, Table
from deadband.compiler.errors import DeadbandError, did_you_mean

__all__ = ["check_columns", "check_outputs", "check_relations", "name_of", "tables_read", "unqualified"]

RESERVED_OUTPUTS = ("ts", "diff")  # what every answer carries besides

Columns = dict[str, list[str] | None]  # alias -> columns as declared; None: not known


def name_of(table: exp.Table) -> str:
    """A table's name as it is looked up."""
    return ".".join(p.name for p in table.parts).lower()


def check_relations(sql: ast.Sql, tree: exp.Query, catalog: Catalog) -> dict[str, Stream | Table]:
    """The streams and tables a body reads, by lower-case name; an unknown one is an error."""
    found: dict[str, Stream | Table] = {}
    for table in tables_read(tree):
        relation = catalog.relation(name_of(table))
        if relation is None:
            name = ".".join(p.name for p in table.parts)
            hint = did_you_mean(name, catalog.names())
            hint = (
                hint or "declare it with CREATE STREAM or CREATE TABLE, or give its columns: compile(sql, tables={…})"
            )
            raise DeadbandError(f"unknown stream or table {name}", span_of(_bare(table), sql), hint=hint)
        found[name_of(table)] = relation
        _check_event_time(sql, table, relation, found)
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() in found:  # a name must say what is read, wherever it stands
            alias = cte.args["alias"]
            what = f"{cte.alias} is read here, and something else is called so"
            raise DeadbandError(what, span_of(alias, sql), hint="give the common table expression another name")
    return found


def _check_event_time(
    sql: ast.Sql, table: exp.Table, relation: Stream | Table, found: dict[str, Stream | Table]
) -> None:
    """Ticks of different kinds have no order."""
    for other in found.values():
        if isinstance(relation, Stream) and isinstance(other, Stream) and other.time_kind != relation.time_kind:
            raise DeadbandError(
                f"{other.name} and {relation.name} have event times of different kinds",
                span_of(_bare(table), sql),
                detail=f"{_time_of(other)}, {_time_of(relation)}",
                hint="declare both with TIMESTAMP BY columns of one kind",
            )


def _time_of(stream: Stream) -> str:
    return f"{stream.name}.{stream.spelling[stream.timestamp]} is {stream.time_kind}"


def tables_read(tree: exp.Expr) -> list[exp.Table]:
    """The tables in a query that are no references to its common table expressions."""
    found = []
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, ctes = stack.pop()
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                own = ctes | {cte.alias.lower()}
                stack.append((cte.this, own if with_.recursive else ctes))
                ctes = own
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and name_of(node) not in ctes:
            found.append(node)
        stack += [(child, ctes) for child in node.iter_expressions() if child is not with_]
    return sorted(found, key=lambda t: t.this.meta.get("start", 0))


def _bare(table: exp.Table) -> exp.Table:
    """The table without its alias, to point at."""
    bare = table.copy()
    bare.set("alias", None)
    return bare


# ---------------------------------------------------------------- columns


def check_columns(sql: ast.Sql, query: exp.Query, catalog: Catalog) -> None:
    """Every column of a qualified query belongs to one of its sources."""
    for scope in traverse_scope(query):
        known = _known(scope, catalog)
        outer = _outer(scope, catalog)
        outputs = {s.lower() for s in query.named_selects}
        if isinstance(scope.expression, exp.Query):
            outputs |= {s.lower() for s in scope.expression.named_selects}
        for column in scope.columns:
            if isinstance(column.this, exp.Star):
                _no_star(sql, column, known)
            elif column.table:
                _check_of_table(sql, column, outer | known)
            elif column.name.lower() not in outputs or column.find_ancestor(exp.Order) is None:
                raise _unknown(sql, column, known)
        for star in scope.expression.expressions:
            if isinstance(star, exp.Star):
                _no_star(sql, star, known)


def unqualified(sql: ast.Sql, tree: exp.Expr, catalog: Catalog, message: str) -> DeadbandError:
    """Why qualify gave up: a second look at the tree as it was written."""
    try:
        for scope in traverse_scope(tree):
            known, outer = _known(scope, catalog), _outer(scope, catalog)
            for join in scope.expression.args.get("joins") or ():
                _check_using(sql, join, known)
            for column in scope.columns:
                if column.table:
                    _check_of_table(sql, column, outer | known)
                elif _candidates(column, known) == [] and not _candidates(column, outer) and None not in known.values():
                    raise _unknown(sql, column, known)
    except DeadbandError as error:
        return error
    except Exception:  # the second look is only for a better message
        pass
    found = re.search(r"Alias already used: (\w+)", message)
    if found:
        twice = [t for t in tree.find_all(exp.Table) if t.alias_or_name.lower() == found[1].lower()]
        span = span_of(twice[-1], sql) if twice else sql.span
        return DeadbandError(f"two relations are called {found[1]}", span, hint="give one of them another alias")
    return DeadbandError("this SQL cannot be understood", sql.span, detail=message, hint="it is read as Spark SQL")


def _known(scope: Scope, catalog: Catalog) -> Columns:
    found: Columns = {}
    for alias, source in scope.sources.items():
        if isinstance(source, exp.Table):
            relation = catalog.relation(name_of(source))
            found[alias] = None if relation is None or relation.columns is None else list(relation.columns)
        elif isinstance(source.expression, exp.Query) and not source.expression.is_star:
            found[alias] = list(source.expression.named_selects)
        else:
            found[alias] = None
    return found


def _outer(scope: Scope, catalog: Catalog) -> Columns:
    """What the queries around this one bring, for correlated subqueries."""
    found: Columns = {}
    parent = scope.parent
    while parent is not None:
        found = _known(parent, catalog) | found
        parent = parent.parent
    return found


def _candidates(column: exp.Column, known: Columns) -> list[str]:
    return [a for a, names in known.items() if names and column.name.lower() in (n.lower() for n in names)]


def _check_of_table(sql: ast.Sql, column: exp.Column, known: Columns) -> None:
    aliases = {a.lower(): a for a in known}
    alias = aliases.get(column.table.lower())
    if alias is None:
        is_field = any(column.table.lower() in (n.lower() for n in names or ()) for names in known.values())
        if is_field or column.args.get("db") is not None or None in known.values():
            return  # a field of a struct, or something only Spark knows
        hint = did_you_mean(column.table, known) or f"the relations here are {', '.join(known)}"
        raise DeadbandError(f"unknown relation {column.table}", span_of(column, sql), hint=hint)
    names = known[alias]
    if names is not None and column.name.lower() not in (n.lower() for n in names):
        raise _unknown(sql, column, {alias: names})


def _unknown(sql: ast.Sql, column: exp.Column, known: Columns) -> DeadbandError:
    place = span_of(column, sql)
    owners = _candidates(column, known)
    if len(owners) > 1:
        return DeadbandError(
            f"column {column.name} is ambiguous",
            place,
            detail=f"{' and '.join(owners)} have it",
            hint=f"write {owners[0]}.{column.name}",
        )
    if sum(names is None for names in known.values()) + len(owners) > 1:
        return DeadbandError(
            f"column {column.name} could belong to several tables",
            place,
            hint="write table.column: the columns of some tables here are not known",
        )
    names = [n for ns in known.values() for n in ns or ()]
    detail = "; ".join(f"{alias} has {', '.join(ns)}" for alias, ns in known.items() if ns)
    nothing = "check its spelling" if known else "the query has no FROM"
    hint = did_you_mean(column.name, names) or nothing
    return DeadbandError(f"unknown column {_written(sql, column)}", place, detail=detail or None, hint=hint)


def _written(sql: ast.Sql, column: exp.Column) -> str:
    """The column's name as the user spelt it."""
    place = column.this.meta
    return sql.text[place["start"] : place["end"] + 1].strip("`") if "start" in place else column.name


def _no_star(sql: ast.Sql, star: exp.Expr, known: Columns) -> None:
    unknown = [a for a, names in known.items() if names is None]
    if not unknown:
        return
    raise DeadbandError(
        "* cannot be expanded here",
        span_of(star, sql),
        detail=f"the columns of {' and '.join(unknown)} are not known",
        hint="name the columns, or give them: CREATE TABLE t (a INT, …) or compile(sql, tables={…})",
    )


def _check_using(sql: ast.Sql, join: exp.Join, known: Columns) -> None:
    for name in join.args.get("using") or ():
        column = exp.column(name.copy())
        if not _candidates(column, known) and None not in known.values():
            raise _unknown(sql, column, known)


# ---------------------------------------------------------------- outputs


def check_outputs(sql: ast.Sql, query: exp.Query, names: tuple[str, ...]) -> None:
    """Answers carry their columns by name: each once, none that answers have anyway."""
    seen: set[str] = set()
    for name, output in zip(names, query.selects):
        key = name.lower()
        if key in RESERVED_OUTPUTS or key.startswith("__"):
            what = f"a column cannot be called {name}"
            raise DeadbandError(what, span_of(output, sql), detail=_reserved(key), hint="give it another name with AS")
        if key in seen:
            span = span_of(output, sql)
            raise DeadbandError(f"two columns are called {name}", span, hint="give one of them another name with AS")
        seen.add(key)


def _reserved(name: str) -> str:
    return (
        f"every answer has a column {name} of its own"
        if name in RESERVED_OUTPUTS
        else "names that begin with __ are ours"
    )
