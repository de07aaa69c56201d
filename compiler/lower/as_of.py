"""A body over streams becomes one query over all ticks, where the body allows it.

Law. Write Q for the body, S(t) for the streams' rows in force at tick t, and Q' for the rewritten query. As multisets,
for every tick t:
    versions    {row of Q' | __from <= t < __to} = Q(S(t)); stream rows carry the ticks they are valid in
    ticks       {row of Q' | __tick = t} = Q(S(t)); stream rows are repeated for every tick they are valid in
    jobs        Q' = Q, to be run once a tick over S(t)
The cost follows the updates, the live rows of all ticks, the jobs: the first form that can say the body is taken. What
is not known to keep the law raises _Stop. An aggregate that hides behind an unknown name breaks no law: the time
columns stand beside it ungrouped, Spark refuses the query, and the runtime runs the body as jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import shorten

from sqlglot import exp

from deadband.compiler.bind.template import PARAMETERS
from deadband.compiler.bind.unstable import unstable_part

__all__ = ["FROM", "NEVER", "TICK", "TICKS", "TICKS_OF", "TO", "VERSIONS_OF", "AsOf", "as_of", "tables_read"]

FROM, TO, TICK = "__from", "__to", "__tick"
VERSIONS_OF, TICKS_OF = "__versions_", "__ticks_"  # tables, before a stream's name
TICKS = "__ticks"  # the table of all ticks
NEVER = 2**62  # the __to of what is still valid
ALWAYS = -1  # the __from of what does not depend on a stream: before the first tick

# Spark's aggregates that sqlglot reads as calls of unknown functions; names with _agg are recognised as well
AGGREGATES = {
    "collect_union",
    "count_min_sketch",
    "every",
    "histogram_numeric",
    "mean",
    "measure",
    "some",
    "std",
    "try_avg",
    "try_sum",
}
SKIP_NULLS = (exp.Avg, exp.Count, exp.Max, exp.Min, exp.Sum)


@dataclass(frozen=True)
class AsOf:
    """How the answers of a body at all ticks are found."""

    form: str  # 'versions' | 'ticks' | 'jobs'
    query: exp.Query  # the rewritten query; 'jobs': the body
    complete: bool  # a global aggregate: every tick (folded: of every query) has an answer, rows or not
    reason: str  # why this form
    body: exp.Query  # what to run a tick at a time should Spark refuse the query

    def __post_init__(self) -> None:
        assert self.form in ("versions", "ticks", "jobs"), self.form


def as_of(body: exp.Query, streams: Mapping[str, bool], per_query: bool = False) -> AsOf:
    """The cheapest form that is known to give the body's answer at every tick; streams: name -> has a KEY."""
    plain = _unordered(body.copy())
    per_query = per_query and any(table.name == PARAMETERS for table in tables_read(plain))
    complete = isinstance(plain, exp.Select) and _is_global(plain, per_query)
    single = plain.copy()
    if per_query and complete and isinstance(single, exp.Select):
        _complete(single, None, [_params()])
    reason = "linear in the streams: one row for each version of a row"
    for form, rewrite, since in (("versions", _Versions, "all ticks in one job"), ("ticks", _Ticks, "one job a tick")):
        try:
            _stable(plain)
            return AsOf(form, rewrite(streams, per_query).top(plain.copy()), complete, reason, single)
        except _Stop as stop:
            reason = f"{since}: {stop}"
    return AsOf("jobs", single, complete, reason, single)


def tables_read(query: exp.Expr) -> Iterator[exp.Table]:
    """The tables in a query that are not references to its CTEs."""
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(query, frozenset())]
    while stack:
        node, ctes = stack.pop()
        with_, recursive = node.args.get("with_"), _is_recursive(node)
        for cte in with_.expressions if with_ else ():
            own = ctes | {cte.alias.lower()}
            stack.append((cte.this, own if recursive else ctes))
            ctes = own
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and _plain_name(node) not in ctes:
            yield node
        stack.extend((c, ctes) for c in node.iter_expressions() if c is not with_ and not isinstance(c, exp.Hint))


# ---------------------------------------------------------------- both rewrites


class _Stop(Exception):
    """A part of the body that a form cannot say."""


class _Rewrite:
    """Rewrites queries in place. `names` maps each table that changes with time to the table to read instead."""

    prefix: str

    def __init__(self, streams: Mapping[str, bool], per_query: bool):
        self.streams = {name: self.prefix + name for name in streams}
        self.per_query = per_query

    def top(self, query: exp.Query) -> exp.Query:
        return query if self.query(query, self.streams) else self.lift(query)

    def query(self, query: exp.Expr, names: Mapping[str, str]) -> bool:
        """True when the answer changes with time; the query then gives the time columns too, last."""
        names = self.ctes(query, names)
        for kind, rewrite in self.kinds.items():
            if isinstance(query, kind):
                return rewrite(self, query, names)
        return _static(query, names)

    def ctes(self, query: exp.Expr, names: Mapping[str, str]) -> Mapping[str, str]:
        with_ = query.args.get("with_")
        for cte in with_.expressions if with_ else ():
            name = cte.alias.lower()
            live = self.query(cte.this, names)
            if live and (_is_recursive(query) or _column_aliases(cte)):
                raise _Stop("a recursive CTE, or one with column names, over a stream")
            names = {**names, name: name} if live else {n: t for n, t in names.items() if n != name}
        return names

    def parentheses(self, query: exp.Subquery, names: Mapping[str, str]) -> bool:
        live = self.query(query.this, names) if isinstance(query.this, exp.Query) else _static(query.this, names)
        if live:
            _only(query, "this", "alias", "with_", "order")
            if _column_aliases(query):
                raise _Stop("column names of a subquery")
        return live

    def set_operation(self, query: exp.SetOperation, names: Mapping[str, str]) -> bool:
        sides = [query.this, query.expression]
        live = [self.query(side, names) for side in sides]
        if not any(live):
            return False
        _only(query, "this", "expression", "distinct", "with_", "order")
        self.check_set_operation(query)
        for side, is_live in zip(sides, live):
            if not is_live:
                side.replace(self.lift(side.copy()))
        return True

    def select(self, select: exp.Select, names: Mapping[str, str]) -> bool:
        for expression in _expressions(select):
            _static(expression, names)
        live = [self.source(source, names) for source in _sources(select)]
        if not any(live):
            return False
        _only(select, *SELECT_PARTS)
        if any(isinstance(n, exp.Star) and not isinstance(n.parent, exp.Count) for n in _own(select)):
            raise _Stop("a * that was not expanded")
        for join in select.args.get("joins") or ():
            _only(join, "this", "on", "side", "kind", "hint")
            if join.side not in ("", "LEFT", "RIGHT", "FULL") or join.kind not in JOIN_KINDS:
                raise _Stop(f"{join.side} {join.kind} JOIN".strip())
        self.block(select, live)
        return True

    def source(self, source: exp.Expr, names: Mapping[str, str]) -> bool:
        """Makes a source of a block read the rows of all ticks; True when it changes with time."""
        if isinstance(source, exp.Subquery):
            return self.query(source, names)
        if not isinstance(source, exp.Table) or _plain_name(source) not in names:
            return _static(source, names)
        _only(source, "this", "alias")
        if _column_aliases(source):
            raise _Stop("column names of a stream")
        if not source.alias:
            source.set("alias", exp.TableAlias(this=source.this.copy()))
        source.set("this", exp.to_identifier(names[_plain_name(source)], quoted=True))
        return True

    def lift(self, query: exp.Expr) -> exp.Select:
        """A query that does not change with time, as one that does."""
        raise NotImplementedError

    def check_set_operation(self, query: exp.SetOperation) -> None:
        raise NotImplementedError

    def block(self, select: exp.Select, live: list[bool]) -> None:
        """Adds the time columns to a SELECT; live: which of its sources have them."""
        raise NotImplementedError

    kinds: Mapping[type[exp.Expr], Callable[..., bool]] = {
        exp.Subquery: parentheses,
        exp.SetOperation: set_operation,
        exp.Select: select,
    }


class _Versions(_Rewrite):
    """A joined row is valid while all its parts are: from the latest of their starts to the first of their ends."""

    prefix = VERSIONS_OF

    def block(self, select: exp.Select, live: list[bool]) -> None:
        for part in ("group", "having", "distinct", "qualify", "windows"):
            if select.args.get(part):
                raise _Stop(f"{PARTS.get(part, part.upper())} needs all rows of a tick")
        for node in _own(select):
            if isinstance(node, exp.Window) or _is_aggregate(node):
                raise _Stop(f"{_text(node)} needs all rows of a tick")
        seen = live[0]
        for join, right in zip(select.args.get("joins") or (), live[1:]):
            if (right and _keeps_left(join)) or (seen and _keeps_right(join)):
                raise _Stop(f"{_join_name(join)} depends on rows of a stream that are missing")
            seen = seen or right
        start: exp.Expr
        end: exp.Expr
        start, *starts = [_column(source, FROM) for source in _live(select, live)]
        end, *ends = [_column(source, TO) for source in _live(select, live)]
        if starts:
            start, end = exp.Greatest(this=start, expressions=starts), exp.Least(this=end, expressions=ends)
            meet = exp.LT(this=start.copy(), expression=end.copy())
            where = select.args.get("where")
            # first, so that what never meets is not compared
            select.set("where", exp.Where(this=exp.and_(meet, where and where.this)))
        _add(select, start, FROM)
        _add(select, end, TO)

    def check_set_operation(self, query: exp.SetOperation) -> None:
        if not isinstance(query, exp.Union) or query.args.get("distinct"):
            raise _Stop(f"{query.key.upper()} needs all rows of a tick")

    def lift(self, query: exp.Expr) -> exp.Select:
        lifted = _all_of(_derived(query, "__s"), "__s")
        _add(lifted, exp.cast(exp.Literal.number(ALWAYS), "bigint"), FROM)
        return _add(lifted, exp.cast(exp.Literal.number(NEVER), "bigint"), TO)


class _Ticks(_Rewrite):
    """Every operation is done within a tick: joins, groups, windows and set operations carry it as one more key."""

    prefix = TICKS_OF

    def block(self, select: exp.Select, live: list[bool]) -> None:
        tick = self.joined(select, live)
        if _is_global(select, self.per_query):
            tick = _complete(select, tick, [_ticks()] + ([_params()] if self.per_query else []))
        elif select.args.get("group"):
            _group_by(select, tick)
        for window in [n for n in _own(select) if isinstance(n, exp.Window)]:
            _partition_by(window, tick)
        _add(select, tick, TICK)

    def joined(self, select: exp.Select, live: list[bool]) -> exp.Expr:
        """Joins the sources within a tick; the tick of a joined row."""
        first, *others = _sources(select)
        tick: exp.Expr | None = _column(first, TICK) if live[0] else None
        kept_right = False
        for join, right, is_live in zip(select.args.get("joins") or (), others, live[1:]):
            if not is_live and (tick is None or not _keeps_right(join)):
                kept_right = kept_right or (tick is None and _keeps_right(join))
                continue
            if not is_live:
                right = self.lift_source(right)
            if tick is None and _keeps_left(join):
                if kept_right:
                    raise _Stop("outer joins in both directions")
                tick = _column(self.lift_source(first), TICK)
            if tick is not None:
                within = exp.EQ(this=_column(right, TICK), expression=tick.copy())
                join.set("on", exp.and_(within, join.args.get("on")))
                join.set("kind", None if join.kind == "CROSS" else join.args.get("kind"))
            tick = _tick_after(join, tick, _column(right, TICK))
        assert tick is not None
        return tick

    def lift_source(self, source: exp.Expr) -> exp.Subquery:
        if not isinstance(source, exp.Table | exp.Subquery) or _column_aliases(source):
            raise _Stop("an outer join that keeps the rows of a table function")
        name = source.alias_or_name
        return source.replace(_derived(self.lift_rows(_all_of(source.copy(), name)), name))

    def lift_rows(self, rows: exp.Select) -> exp.Select:
        rows.append("joins", exp.Join(this=_ticks(), kind="CROSS"))
        return _add(rows, _column(_ticks(), TICK), TICK)

    def check_set_operation(self, query: exp.SetOperation) -> None:
        pass

    def lift(self, query: exp.Expr) -> exp.Select:
        return self.lift_rows(_all_of(_derived(query, "__s"), "__s"))


PARTS = {"group": "GROUP BY", "windows": "WINDOW"}  # as they are written, where sqlglot's name differs
SELECT_PARTS = (
    *("with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group", "having"),
    *("qualify", "windows", "order", "sort", "cluster", "distribute"),
)
JOIN_KINDS = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")


# ---------------------------------------------------------------- parts of a tick


def _tick_after(join: exp.Join, left: exp.Expr | None, right: exp.Expr) -> exp.Expr:
    """The tick of the rows of a join within ticks: that of a side it keeps."""
    if left is None or (_keeps_right(join) and not _keeps_left(join)):
        return right
    return exp.Coalesce(this=left.copy(), expressions=[right]) if _keeps_right(join) else left


def _group_by(select: exp.Select, tick: exp.Expr) -> None:
    group = select.args["group"]
    if group.args.get("all"):
        group = exp.Group(expressions=_all_keys(select))
    _only(group, "expressions")
    if any(isinstance(key, exp.Tuple) and not key.expressions for key in group.expressions):
        raise _Stop("GROUP BY ()")
    # first: GROUPING_ID() then only has a leading zero more
    select.set("group", exp.Group(expressions=[tick.copy(), *group.expressions]))


def _all_keys(select: exp.Select) -> list[exp.Expr]:
    """The keys that GROUP BY ALL stands for: the items without aggregates."""
    keys = [item.unalias() for item in select.expressions if not _has_aggregate(item)]
    for item in select.expressions:
        if _has_aggregate(item):
            bare = [c for c in item.find_all(exp.Column) if not any(map(_is_aggregate, _above(c, item)))]
            if bare or item.find(exp.Window, exp.Query):
                raise _Stop("GROUP BY ALL with an item that mixes keys and aggregates")
    if any(not key.find(exp.Column) for key in keys):
        raise _Stop("GROUP BY ALL with a constant")
    return [key.copy() for key in keys]


def _partition_by(window: exp.Window, tick: exp.Expr) -> None:
    if window.args.get("alias"):
        _only(window, "this", "alias", "over")  # the partition of a named window is in its definition
    else:
        window.set("partition_by", [tick.copy(), *(window.args.get("partition_by") or ())])


def _is_global(select: exp.Select, per_query: bool) -> bool:
    """True for an aggregate that has an answer over no rows (in a folded group: one a query)."""
    group = select.args.get("group")
    if group is None:
        return bool(select.args.get("having") or _aggregates(select))
    if group.args.get("all"):
        return all(map(_has_aggregate, select.expressions))
    keys = group.expressions
    return per_query and bool(keys) and all(isinstance(k, exp.Column) and k.table == _params().alias for k in keys)


def _complete(select: exp.Select, tick: exp.Expr | None, pads: list[exp.Table]) -> exp.Expr:
    """Gives a global aggregate an answer in every combination of the pads (ticks, queries); the column of the tick.

    SELECT COUNT(*) AS n, SUM(q.y) AS s FROM __ticks_q AS q WHERE q.x > 1
    -> SELECT COUNT(CASE WHEN __rows.__real THEN 1 END) AS n, SUM(__rows.__0) AS s FROM (
         SELECT q.y AS __0, TRUE AS __real, q.__tick AS __tick FROM __ticks_q AS q WHERE q.x > 1 UNION ALL
         SELECT NULL AS __0, FALSE AS __real, __t.__tick AS __tick FROM __ticks AS __t) AS __rows GROUP BY __rows.__tick
    """
    for part in ("order", "sort", "cluster", "distribute"):
        select.set(part, None)
    inner = exp.Select()
    for part in ("from_", "joins", "laterals", "where", "hint"):
        inner.set(part, select.args.get(part))
        select.set(part, None)
    pad = exp.Select(from_=exp.From(this=pads[0]), joins=[exp.Join(this=table, kind="CROSS") for table in pads[1:]])

    known = {table.alias for table in pads}
    names: dict[exp.Column, str] = {}
    for column in [c for e in _expressions(select) for c in e.find_all(exp.Column) if _belongs(c, select)]:
        if column not in names:
            names[column.copy()] = name = f"__{len(names)}"
            _add(inner, column.copy(), name)
            _add(pad, column.copy() if column.table in known else exp.null(), name)
        column.replace(exp.column(names[column], table="__rows", quoted=True))
    _add(inner, exp.true(), "__real")
    _add(pad, exp.false(), "__real")
    given = {exp.column(name, table="__rows", quoted=True) for column, name in names.items() if column.table in known}
    for aggregate in _aggregates(select):
        _only_where(aggregate, exp.column("__real", table="__rows", quoted=True), given)

    group = select.args.get("group")
    keys = list(group.expressions) if group else []
    at = exp.column(TICK, table="__rows", quoted=True)
    if tick is not None:
        _add(inner, tick, TICK)
        _add(pad, _column(_ticks(), TICK), TICK)
        keys.insert(0, at.copy())
    rows = exp.Union(this=inner, expression=pad, distinct=False)
    select.set("from_", exp.From(this=_derived(rows, "__rows")))
    select.set("group", exp.Group(expressions=keys))
    return at


def _only_where(aggregate: exp.Expr, real: exp.Expr, given: Collection[exp.Expr]) -> None:
    """Keeps the padding out of an aggregate, whose columns are NULL there unless they are given."""
    # not FILTER where it can be done without: with DISTINCT it makes Spark expand the rows
    if isinstance(aggregate, SKIP_NULLS) and not aggregate.expressions:
        values = aggregate.this.expressions if isinstance(aggregate.this, exp.Distinct) else [aggregate.this]
        if not any(isinstance(v, exp.Column) and v.table and v not in given for v in values):
            value = exp.Literal.number(1) if isinstance(values[0], exp.Star) else values[0].copy()
            values[0].replace(exp.case().when(real, value))
        return
    while isinstance(aggregate.parent, exp.WithinGroup):
        aggregate = aggregate.parent
    if isinstance(aggregate.parent, exp.Filter):
        where = aggregate.parent.expression
        where.set("this", exp.and_(real, where.this))
    else:
        aggregate.replace(exp.Filter(this=aggregate.copy(), expression=exp.Where(this=real)))


# ---------------------------------------------------------------- looking at a query


def _unordered(query: exp.Query) -> exp.Query:
    """Without the order of the answer, which its changes do not have."""
    if not query.args.get("limit") and not query.args.get("offset"):
        for part in ("order", "sort", "cluster", "distribute"):
            query.set(part, None)
    return query


def _stable(query: exp.Query) -> None:
    """Stops at what may give another value when it is computed again."""
    part = unstable_part(query)
    if part is not None:
        raise _Stop(f"{_text(part)} gives another value each time")


def _static(node: exp.Expr, names: Mapping[str, str]) -> bool:
    """False for a part that reads nothing that changes; stops at any other, in whose place reading it is not safe."""
    for table in node.find_all(exp.Table):
        if _plain_name(table) in names:
            raise _Stop(f"{table.name} is read inside {_text(node)}")
    return False


def _sources(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    return [part.this for part in ([from_] if from_ else []) + (select.args.get("joins") or [])]


def _live(select: exp.Select, live: Iterable[bool]) -> list[exp.Expr]:
    return [source for source, is_live in zip(_sources(select), live) if is_live]


def _expressions(select: exp.Select) -> Iterator[exp.Expr]:
    """The parts of a block that are computed from its sources."""
    for part, value in list(select.args.items()):
        if part not in ("with_", "from_", "joins", "hint"):
            yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr))
    yield from (join.args["on"] for join in select.args.get("joins") or () if join.args.get("on"))


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of these parts, down to subqueries."""
    for expression in _expressions(select):
        yield from _nodes(expression)


def _nodes(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression, down to subqueries."""
    return expression.walk(prune=lambda node: isinstance(node, exp.Query))


def _aggregates(select: exp.Select) -> list[exp.Expr]:
    return [node for node in _own(select) if _is_aggregate(node)]


def _has_aggregate(expression: exp.Expr) -> bool:
    return any(map(_is_aggregate, _nodes(expression)))


def _is_aggregate(node: exp.Expr) -> bool:
    """True for an aggregate function that is not called as a window function."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name not in AGGREGATES and "_agg" not in name:
            return False
    elif isinstance(node, exp.Any):
        if isinstance(node.parent, exp.Binary):
            return False
    elif not isinstance(node, exp.AggFunc):
        return False
    while isinstance(node.parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        node = node.parent
    return not (isinstance(node.parent, exp.Window) and node.arg_key == "this")


def _belongs(column: exp.Column, select: exp.Select) -> bool:
    """True for a column of a block's own sources, named in it or in a subquery that does not hide them."""
    hidden = set()
    for scope in _above(column, select):
        if isinstance(scope, exp.Select):
            hidden |= {s.alias_or_name for s in _sources(scope)} | {v.alias for v in scope.args.get("laterals") or ()}
    return bool(column.table) and column.table not in hidden


def _above(node: exp.Expr, top: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes between a node and one it is in."""
    parent = node.parent
    while parent is not None and parent is not top:
        yield parent
        parent = parent.parent


def _only(node: exp.Expr, *parts: str) -> None:
    """Stops at any other part of a node."""
    for part, value in node.args.items():
        if value and part not in parts:
            raise _Stop(f"{part.strip('_').replace('_', ' ').upper()} in {type(node).__name__.upper()}")


def _is_recursive(query: exp.Expr) -> bool:
    with_ = query.args.get("with_")
    return with_ is not None and bool(with_.recursive)


def _plain_name(table: exp.Table) -> str:
    """The name of a table that has no database, in lower case; else empty."""
    return table.name.lower() if isinstance(table.this, exp.Identifier) and not table.args.get("db") else ""


def _column_aliases(node: exp.Expr) -> bool:
    alias = node.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.columns)


def _keeps_left(join: exp.Join) -> bool:
    """True when which left rows come out, or how they look, depends on right rows that are missing."""
    return join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")


def _keeps_right(join: exp.Join) -> bool:
    return join.side in ("RIGHT", "FULL")


def _text(node: exp.Expr) -> str:
    return shorten(node.sql("spark"), width=80, placeholder=" …")


def _join_name(join: exp.Join) -> str:
    return " ".join(filter(None, (join.side, join.kind, "JOIN", join.this.alias_or_name)))


# ---------------------------------------------------------------- making parts of a query


def _ticks() -> exp.Table:
    return _table(TICKS, "__t")


def _params() -> exp.Table:
    return _table(PARAMETERS, "__p")


def _table(name: str, alias: str) -> exp.Table:
    alias_ = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=alias_)


def _column(source: exp.Expr, name: str) -> exp.Column:
    return exp.column(name, table=source.alias_or_name, quoted=True)


def _derived(query: exp.Expr, name: str) -> exp.Subquery:
    return exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


def _all_of(source: exp.Expr, name: str) -> exp.Select:
    """SELECT name.* FROM source"""
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True))
    return exp.Select(expressions=[star], from_=exp.From(this=source))


def _add(select: exp.Select, value: exp.Expr, name: str) -> exp.Select:
    """Adds an item to a SELECT, as its last."""
    select.append("expressions", exp.alias_(value.copy(), name, quoted=True))
    return select
