"""The clauses of a query against its shape: what is promised for each answer, or why it cannot be."""

from __future__ import annotations

from typing import TypeAlias

from deadband.compiler import ast
from deadband.compiler.bind.block import has_aggregate
from deadband.compiler.bind.linear_form import NotAffine
from deadband.compiler.bind.place import span_of
from deadband.compiler.bind.template import Template
from deadband.compiler.catalog import LATER
from deadband.compiler.errors import DeadbandError, Span, did_you_mean
from deadband.compiler.logical import ExtremumAggregate, ItemAggregate, Promise

__all__ = ["not_supported_yet", "promise_of"]

Bounding: TypeAlias = ast.Coherency | ast.Precision


def promise_of(query: ast.Query, template: Template, filters: str) -> Promise:
    """What the clauses promise; a clause that cannot be kept is an error, never ignored."""
    coherency = query.clause(ast.Coherency)
    precision = query.clause(ast.Precision)
    fidelity = query.clause(ast.Fidelity)
    emit = query.clause(ast.EmitEvery)
    assert coherency is None or isinstance(coherency, ast.Coherency)
    assert precision is None or isinstance(precision, ast.Precision)
    assert fidelity is None or isinstance(fidelity, ast.Fidelity)
    assert emit is None or isinstance(emit, ast.EmitEvery)
    if coherency is not None and precision is not None:
        later = max(coherency.span, precision.span, key=lambda span: span.start)
        raise DeadbandError(
            "COHERENCY and PRECISION do not go together",
            later,
            detail="COHERENCY bounds the distance of one reported value, PRECISION the width of an interval",
            hint="keep one of them",
        )
    if fidelity is not None and precision is not None:
        raise DeadbandError(
            "PRECISION and FIDELITY do not go together",
            fidelity.span,
            detail="an interval contains the truth at every tick, not in a share of them",
            hint="leave FIDELITY out, or write COHERENCY in place of PRECISION",
        )
    if fidelity is not None and coherency is None:
        raise DeadbandError(
            "FIDELITY needs a COHERENCY clause",
            fidelity.span,
            detail="it is the share of the ticks in which a bound must hold",
            hint="add for example COHERENCY value WITHIN 80",
        )
    _check_pulled(query, template, fidelity)
    for clause in query.clauses:
        if isinstance(clause, ast.Response | ast.Notify | ast.Memory):
            raise not_supported_yet(type(clause).__name__.upper(), clause.span)
    bounding = coherency or precision
    return Promise(
        kind=None if bounding is None else _word(bounding),
        bounds=() if bounding is None else _bounds(bounding, template),
        share=1.0 if fidelity is None else fidelity.share,
        window=None if fidelity is None or fidelity.window is None else fidelity.window.seconds,
        emit_every=None if emit is None else emit.interval.seconds,
        method="" if precision is None else filters,
    )


def _word(clause: Bounding) -> str:
    return type(clause).__name__.upper()


def not_supported_yet(what: str, span: Span) -> DeadbandError:
    return DeadbandError(f"{what} is not supported yet", span, hint=LATER)


def _check_pulled(query: ast.Query, template: Template, fidelity: ast.Fidelity | None) -> None:
    for stream in template.body.streams:
        if stream.pull_every is None:
            continue
        precision = query.clause(ast.Precision)
        if precision is not None:
            raise DeadbandError(
                f"PRECISION cannot be promised on {stream.name}, which is pulled",
                precision.span,
                detail="between two pulls a value may be anywhere",
                hint="use COHERENCY with FIDELITY below 100%, or declare the stream without PULL EVERY",
            )
        if fidelity is None or fidelity.share >= 1:
            coherency = query.clause(ast.Coherency)
            place = fidelity or coherency or query.body
            example = "COHERENCY value WITHIN 80 FIDELITY 98%" if coherency is None else "FIDELITY 98%"
            raise DeadbandError(
                f"{stream.name} is pulled, so its queries need FIDELITY below 100%",
                place.span,
                detail="between two pulls a value may be anywhere, so no bound can hold always",
                hint=f"write for example {example}",
            )
        assert stream.pull_span is not None
        raise not_supported_yet("PULL", stream.pull_span)


def _bounds(clause: Bounding, template: Template) -> tuple[ast.Bound | None, ...]:
    """One bound per answer, in the order of the answers; an answer that is not named has none and is kept exactly."""
    aggregates = _aggregates(template)
    for within in clause.bounds:
        if within.column is not None and within.column.key not in (a.lower() for a in aggregates):
            raise _not_an_aggregate(clause, within.column, template, aggregates)
    shape = template.shape
    if isinstance(clause, ast.Coherency) and isinstance(shape, ExtremumAggregate):
        raise not_supported_yet("COHERENCY on MIN and MAX", clause.span)
    error = template.not_linear if isinstance(clause, ast.Coherency) else template.not_items
    if error is not None:
        raise _not_kept(clause, error, template)
    assert isinstance(shape, ItemAggregate)
    answers = {a.name.lower(): i for i, a in enumerate(shape.answers)}
    bounds: list[ast.Bound | None] = [None] * len(shape.answers)
    for within in clause.bounds:
        if within.column is None and len(shape.answers) != 1:
            raise DeadbandError(
                "say which column the bound is for",
                within.span,
                detail=f"the aggregates are {', '.join(aggregates)}",
                hint=f"write {_word(clause)} {aggregates[0]} WITHIN {within.bound}",
            )
        index = 0 if within.column is None else answers[within.column.key]
        if bounds[index] is not None:
            raise DeadbandError(f"{shape.answers[index].name} has two bounds", within.span, hint="keep one of them")
        bounds[index] = within.bound
    return tuple(bounds)


def _aggregates(template: Template) -> list[str]:
    """The names of the outputs that have an aggregate."""
    outputs = zip(template.body.columns, template.body.query.selects)
    return [name for name, output in outputs if has_aggregate(output)]


def _not_an_aggregate(clause: Bounding, column: ast.Name, template: Template, aggregates: list[str]) -> DeadbandError:
    the_aggregates = f"the aggregates are {', '.join(aggregates)}" if aggregates else "the query has no aggregate"
    if column.key in (c.lower() for c in template.body.columns):
        return DeadbandError(
            f"{column.text} is not an aggregate, so it cannot have a bound",
            column.span,
            detail=the_aggregates,
            hint=f"write {_word(clause)} {aggregates[0]} WITHIN …" if aggregates else _FOR[type(clause)],
        )
    hint = did_you_mean(column.text, template.body.columns)
    if hint is None:
        unnamed = next((a for a in aggregates if a.startswith("_col_")), None)
        hint = the_aggregates if unnamed is None else f"name the aggregate {unnamed} with AS {column.text}"
    detail = f"the query has {', '.join(template.body.columns)}"
    return DeadbandError(f"unknown column {column.text}", column.span, detail=detail, hint=hint)


_FOR: dict[type[Bounding], str] = {
    ast.Coherency: "COHERENCY is for SUM, AVG and COUNT of expressions affine in one keyed stream's values",
    ast.Precision: "PRECISION is for SUM, AVG and COUNT of expressions affine in one keyed stream's values, and for MIN"
    " and MAX of numbers",
}


def _not_kept(clause: Bounding, error: NotAffine, template: Template) -> DeadbandError:
    span = span_of(error.node, template.sql)
    written = " ".join(span.text.split())
    return DeadbandError(
        f"{_word(clause)} cannot be kept here",
        span,
        detail=error.reason.replace(error.node.sql("spark"), written),
        hint=f"{_FOR[type(clause)]}; without the clause the query runs exactly",
    )
