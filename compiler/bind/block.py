"""A body as one flat block: relations, conditions, outputs. CTEs and derived tables are merged in where SQL allows it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.simplify import simplify

from deadband.compiler.catalog import Stream
from deadband.compiler.logical import Body

__all__ = ["Block", "NotFlat", "aliases_of", "block_of", "has_aggregate"]


class NotFlat(Exception):
    """The body is not one block; the message says which part stands in the way."""


@dataclass(frozen=True)
class Block:
    select: exp.Select  # merged; conditions, joins and outputs as written
    streams: dict[str, Stream]  # by alias
    tables: dict[str, str]  # alias -> table
    nullable: frozenset[str]  # aliases that an outer join may fill with NULLs
    conditions: tuple[exp.Expression, ...]  # conjuncts of WHERE and of inner joins, BETWEEN written out
    outputs: tuple[exp.Expression, ...]  # without their aliases
    names: tuple[str, ...]
    groups: tuple[exp.Expression, ...]

    @property
    def aggregates(self) -> bool:
        return bool(self.groups) or any(has_aggregate(o) for o in self.outputs)


def block_of(body: Body) -> Block:
    """The body as one block, or NotFlat."""
    tree = body.query
    if isinstance(tree, exp.Select) and (tree.args.get("with_") or any(tree.find_all(exp.Subquery))):
        tree = merge_subqueries(tree.copy())
    if not isinstance(tree, exp.Select):
        raise NotFlat(f"{type(tree).__name__.upper()} is not one SELECT")
    if tree.args.get("with_"):
        raise NotFlat("a common table expression that cannot be merged into the query")
    for key, what in _NOT_IN_A_BLOCK.items():
        if tree.args.get(key):
            raise NotFlat(what)
    if any(tree.find_all(exp.Window)):
        raise NotFlat("a window function")
    if any(q is not tree for q in tree.find_all(exp.Query)):
        raise NotFlat("a subquery")

    by_name = {s.name.lower(): s for s in body.streams}
    streams: dict[str, Stream] = {}
    tables: dict[str, str] = {}
    nullable: set[str] = set()
    conditions: list[exp.Expression] = []
    source = tree.args.get("from_")
    joins = tree.args.get("joins") or []
    for relation, join in [(source.this if source else None, None), *((j.this, j) for j in joins)]:
        if not isinstance(relation, exp.Table) or not isinstance(relation.this, exp.Identifier):
            raise NotFlat("a source that is not a table")
        name = ".".join(p.name for p in relation.parts).lower()
        before = {*streams, *tables}
        if name in by_name:
            streams[relation.alias_or_name] = by_name[name]
        else:
            tables[relation.alias_or_name] = name
        if join is None:
            continue
        if join.side not in ("", "LEFT") or join.kind not in ("", "INNER", "CROSS", "OUTER") or join.args.get("using"):
            raise NotFlat(f"a {' '.join(w for w in (join.side, join.kind) if w)} JOIN")
        if join.side == "LEFT":
            if name in by_name or any(a in streams and streams[a].name.lower() == name for a in before):
                raise NotFlat("a LEFT JOIN to a stream")
            nullable.add(relation.alias_or_name)
        elif join.args.get("on") is not None:
            conditions += _conjuncts(join.args["on"])
    where = tree.args.get("where")
    if where is not None:
        conditions += _conjuncts(where.this)
    group = tree.args.get("group")
    if group is not None and any(v for k, v in group.args.items() if k != "expressions" and v):
        raise NotFlat("GROUP BY ALL, CUBE, ROLLUP or GROUPING SETS")
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


def aliases_of(node: exp.Expression) -> set[str]:
    """The aliases whose columns a node reads."""
    return {c.table for c in node.find_all(exp.Column)}


def has_aggregate(node: exp.Expression) -> bool:
    return node.find(exp.AggFunc) is not None


_NOT_IN_A_BLOCK = {
    "distinct": "DISTINCT",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "windows": "a window",
    "sample": "TABLESAMPLE",
}


def _conjuncts(condition: exp.Expression) -> list[exp.Expression]:
    flat = simplify(condition.copy(), dialect="spark")
    return list(flat.flatten()) if isinstance(flat, exp.And) else [flat]
