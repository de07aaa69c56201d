"""A body that serves all queries of a folded group: its parameters are columns of one static table.

Before: SELECT MIN(q.per) FROM q … WHERE q.risk > 3. After: SELECT __p.__query, MIN(q.per) FROM __params AS __p CROSS
JOIN q … WHERE q.risk > __p.p0 GROUP BY __p.__query.
"""

from __future__ import annotations

from sqlglot import exp

from deadband.compiler.bind.block import has_aggregate
from deadband.compiler.bind.template import PARAMETERS, QUERY, Template, parameterised

__all__ = ["folded", "parameter_join"]


def folded(template: Template) -> exp.Select:
    """The flat block of a template over the table of its parameters."""
    assert template.select is not None
    select = parameterised(template.select, template.starts)
    assert isinstance(select, exp.Select)
    aggregates = select.args.get("group") is not None or any(has_aggregate(s) for s in select.selects)
    parameter_join(select)
    select = select.select(exp.alias_(exp.column(QUERY, table="__p"), QUERY), copy=False)
    return select.group_by(exp.column(QUERY, table="__p"), copy=False) if aggregates else select


def parameter_join(select: exp.Select) -> None:
    """Puts the parameter table first, where every ON sees it."""
    source, joins = select.args["from_"], select.args.get("joins") or []
    for join in joins:
        if not (join.args.get("on") or join.side or join.kind):  # a comma hides what comes before it from later ONs
            join.set("kind", "CROSS")
    select.set("joins", [exp.Join(this=source.this, kind="CROSS"), *joins])
    select.set("from_", exp.From(this=exp.to_table(PARAMETERS, alias="__p")))
