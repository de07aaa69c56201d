"""A body as one flat block: relations, conditions, outputs; CTEs and derived tables are merged in where SQL allows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.simplify import simplify

from deadband.compiler.catalog import Stream
from deadband.compiler.logical import Body

__all__ = ["Block", "NotFlat", "aliases_of", "block_of", "has_aggregate"]


class NotFlat(Exception):
    """The body is not one block: the part that stands in the way, and why."""

    def __init__(self, node: exp.Expr, reason: str):
        super().__init__(reason)
        self.node = node
        self.reason = reason


@dataclass(frozen=True)
class Block:
    select: exp.Select  # merged; conditions, joins and outputs as written
    streams: dict[str, Stream]  # by alias
    tables: dict[str, str]  # alias -> table
    nullable: frozenset[str]  # aliases that an outer join may fill with NULLs
    conditions: tuple[exp.Expr, ...]  # conjuncts of WHERE and of inner joins, BETWEEN written out
    outputs: tuple[exp.Expr, ...]  # without their aliases
    names: tuple[str, ...]
    groups: tuple[exp.Expr, ...]

    @property
    def aggregates(self) -> bool:
        return bool(self.groups) or any(has_aggregate(o) for o in self.outputs)


def block_of(body: Body) -> Block:
    """The body as one block, or NotFlat."""
    tree: exp.Expr = body.query
    while isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Query) and not _present(tree, ("this",)):
        tree = tree.this
    if isinstance(tree, exp.Select) and (tree.args.get("with_") or any(tree.find_all(exp.Subquery))):
        tree = _merged(tree)
    tree = _without_using(tree)
    if not isinstance(tree, exp.Select):
        raise NotFlat(tree, f"{tree.key.upper()} puts several queries together")
    if tree.args.get("with_"):
        cte = tree.args["with_"].expressions[0]
        raise NotFlat(cte, f"{cte.alias} cannot be merged into the query")
    for key in _present(tree, _IN_A_BLOCK):
        value = tree.args[key]
        node = value[0] if isinstance(value, list) else value
        raise NotFlat(node if isinstance(node, exp.Expr) else tree, _REASONS.get(key, f"it has {key.upper()}"))
    for window in tree.find_all(exp.Window):
        raise NotFlat(window, "a window function needs all rows of a tick")
    for query in tree.find_all(exp.Query):
        if query is not tree:
            raise NotFlat(query, "it has a subquery that cannot be merged into it")

    by_name = {s.name.lower(): s for s in body.streams}
    streams: dict[str, Stream] = {}
    tables: dict[str, str] = {}
    nullable: set[str] = set()
    conditions: list[exp.Expr] = []
    source = tree.args.get("from_")
    joins = tree.args.get("joins") or []
    for relation, join in [(source.this if source else None, None), *((j.this, j) for j in joins)]:
        if not isinstance(relation, exp.Table) or not isinstance(relation.this, exp.Identifier):
            raise NotFlat(relation or tree, "it reads something that is not a table")
        for key in _present(relation, ("this", "alias", "db", "catalog")):
            raise NotFlat(relation, f"{relation.alias_or_name} is read with {key.upper()}")
        if relation.alias_column_names:
            raise NotFlat(relation, f"{relation.alias_or_name} renames its columns")
        name = ".".join(p.name for p in relation.parts).lower()
        if name in by_name:
            streams[relation.alias_or_name] = by_name[name]
        else:
            tables[relation.alias_or_name] = name
        if join is None:
            continue
        words = " ".join(w for w in (join.method, join.side, join.kind) if w)
        if words not in _JOINS or _present(join, ("this", "on", "side", "kind", "hint")):
            raise NotFlat(join, f"{words} JOIN is not an inner join".lstrip())
        if join.side == "LEFT":
            if name in by_name:
                raise NotFlat(join, f"a LEFT JOIN to {by_name[name].name}, a stream: its rows come and go")
            nullable.add(relation.alias_or_name)
        elif join.args.get("on") is not None:
            conditions += _conjuncts(join.args["on"])
    where = tree.args.get("where")
    if where is not None:
        conditions += _conjuncts(where.this)
    group = tree.args.get("group")
    if group is not None:
        several = group.find(exp.Rollup, exp.Cube, exp.GroupingSets)
        if several is not None or _present(group, ("expressions",)):
            raise NotFlat(several or group, "GROUP BY ALL, CUBE, ROLLUP or GROUPING SETS")
    return Block(
        select=tree,
        streams=streams,
        tables=tables,
        nullable=frozenset(nullable),
        conditions=tuple(conditions),
        outputs=tuple(o.unalias() for o in tree.selects),
        names=body.columns,
        groups=tuple(group.expressions) if group is not None else (),
    )


def aliases_of(node: exp.Expr) -> set[str]:
    """The aliases whose columns a node reads."""
    return {c.table for c in node.find_all(exp.Column)}


def has_aggregate(node: exp.Expr) -> bool:
    if node.find(exp.AggFunc) is not None:
        return True
    return any(f.name.lower() in _MORE_AGGREGATES for f in node.find_all(exp.Anonymous))


# Spark's aggregates that sqlglot reads as functions it does not know.
_MORE_AGGREGATES = {
    "bitmap_construct_agg", "collect_union", "count_min_sketch", "every", "histogram_numeric", "listagg", "measure",
    "some", "std", "string_agg", "try_avg", "try_sum",
}  # fmt: skip


_IN_A_BLOCK = ("expressions", "from_", "joins", "where", "group", "order", "hint", "sort", "cluster", "distribute")
_JOINS = ("", "INNER", "CROSS", "LEFT", "LEFT OUTER")
_REASONS = {
    "distinct": "DISTINCT drops rows that look alike",
    "having": "HAVING lets groups come and go with changing values",
    "qualify": "QUALIFY lets rows come and go with changing values",
    "limit": "LIMIT keeps some of the rows only",
    "offset": "OFFSET keeps some of the rows only",
    "laterals": "LATERAL VIEW makes several rows of one",
    "pivots": "PIVOT turns rows into columns",
    "windows": "a window function needs all rows of a tick",
    "sample": "TABLESAMPLE keeps some of the rows only",
}


def _merged(tree: exp.Select) -> exp.Select:
    try:
        return merge_subqueries(tree.copy())
    except Exception:  # what sqlglot trips over still runs, exactly
        raise NotFlat(tree, "it has a subquery that cannot be merged into it") from None


def _without_using(tree: exp.Expr) -> exp.Expr:
    """JOIN … USING (k) makes COALESCE(q.k, h.k) of k; where no join keeps right rows alone that is q.k."""
    made = [c for c in tree.find_all(exp.Coalesce) if _is_key(c)]
    if not made:
        return tree
    return tree.copy().transform(lambda n: n.this if isinstance(n, exp.Coalesce) and _is_key(n) else n)


def _is_key(node: exp.Coalesce) -> bool:
    """Columns of one name without a place in the text: nobody wrote them."""
    parts = [node.this, *node.expressions]
    return all(isinstance(p, exp.Column) and p.name == node.this.name and "start" not in p.this.meta for p in parts)


def _present(node: exp.Expr, allowed: Collection[str]) -> list[str]:
    """The parts of a node, other than these, that are there."""
    return [key for key, value in node.args.items() if value and key not in allowed]


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    flat = simplify(condition.copy(), dialect="spark")
    found = list(flat.flatten()) if isinstance(flat, exp.And) else [flat]
    return [c for c in found if c != exp.true()]
