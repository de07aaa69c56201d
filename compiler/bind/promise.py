"""The clauses of a query against its shape: what is promised for each answer, or why it cannot be."""

from __future__ import annotations

from deadband.compiler import ast
from deadband.compiler.bind.body import span_of
from deadband.compiler.bind.template import Template
from deadband.compiler.errors import DeadbandError, Span, did_you_mean
from deadband.compiler.logical import ExtremumAggregate, LinearAggregate, Promise

__all__ = ["not_supported_yet", "promise_of"]


def promise_of(query: ast.Query, template: Template) -> Promise:
    """What the clauses promise; a clause that cannot be kept is an error, never ignored."""
    coherency = query.clause(ast.Coherency)
    precision = query.clause(ast.Precision)
    fidelity = query.clause(ast.Fidelity)
    emit = query.clause(ast.EmitEvery)
    assert coherency is None or isinstance(coherency, ast.Coherency)
    assert fidelity is None or isinstance(fidelity, ast.Fidelity)
    assert emit is None or isinstance(emit, ast.EmitEvery)
    if coherency is not None and precision is not None:
        second = max(coherency, precision, key=lambda c: c.span.start)
        raise DeadbandError(
            "COHERENCY and PRECISION do not go together",
            second.span,
            detail="COHERENCY bounds the distance of one reported value, PRECISION the width of an interval",
            hint="keep one of them",
        )
    if fidelity is not None and coherency is None:
        raise DeadbandError(
            "FIDELITY needs a COHERENCY clause",
            fidelity.span,
            detail="it is the share of the ticks in which a bound must hold",
            hint="add for example COHERENCY value WITHIN 80",
        )
    _check_pulled(query, template, fidelity)
    for kind in (ast.Precision, ast.Response, ast.Notify, ast.Memory):
        clause = query.clause(kind)
        if clause is not None:
            raise not_supported_yet(kind.__name__.upper(), clause.span)
    return Promise(
        kind=None if coherency is None else "COHERENCY",
        bounds=() if coherency is None else _bounds(coherency, query, template),
        share=1.0 if fidelity is None else fidelity.share,
        window=None if fidelity is None or fidelity.window is None else fidelity.window.seconds,
        emit_every=None if emit is None else emit.interval.seconds,
    )


def not_supported_yet(what: str, span: Span) -> DeadbandError:
    return DeadbandError(f"{what} is not supported yet", span, hint="it parses, and a later release will run it")


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
            raise DeadbandError(
                f"{stream.name} is pulled, so its queries need FIDELITY below 100%",
                query.body.span if fidelity is None else fidelity.span,
                detail="between two pulls a value may be anywhere, so no bound can hold always",
                hint="add for example COHERENCY value WITHIN 80 FIDELITY 98%",
            )
        assert stream.pull_span is not None
        raise not_supported_yet("PULL", stream.pull_span)


def _bounds(coherency: ast.Coherency, query: ast.Query, template: Template) -> tuple[ast.Bound | None, ...]:
    """One bound per answer, in the order of the answers; an answer that is not named has none and is kept exactly."""
    shape = template.shape
    if not isinstance(shape, LinearAggregate):
        raise _not_linear(coherency, query, template)
    answers = {a.name.lower(): i for i, a in enumerate(shape.answers)}
    bounds: list[ast.Bound | None] = [None] * len(shape.answers)
    for within in coherency.bounds:
        if within.column is None:
            if len(shape.answers) != 1:
                names = ", ".join(a.name for a in shape.answers)
                raise DeadbandError(
                    "say which column the bound is for",
                    within.span,
                    detail=f"the aggregates are {names}",
                    hint=f"write COHERENCY {shape.answers[0].name} WITHIN {within.bound}",
                )
            index = 0
        else:
            index = answers.get(within.column.key, -1)
            if index < 0:
                raise _not_an_answer(within.column, shape)
        if bounds[index] is not None:
            raise DeadbandError(f"{shape.answers[index].name} has two bounds", within.span, hint="keep one of them")
        bounds[index] = within.bound
    return tuple(bounds)


def _not_an_answer(column: ast.Name, shape: LinearAggregate) -> DeadbandError:
    names = [a.name for a in shape.answers]
    if column.key in (o.name.lower() for o in shape.outputs):
        return DeadbandError(
            f"{column.text} is not an aggregate, so it cannot have a bound",
            column.span,
            detail=f"the aggregates are {', '.join(names)}",
            hint=f"write COHERENCY {names[0]} WITHIN …",
        )
    return DeadbandError(
        f"unknown column {column.text}",
        column.span,
        detail=f"the query has {', '.join(o.name for o in shape.outputs)}",
        hint=did_you_mean(column.text, names) or f"the aggregates are {', '.join(names)}",
    )


def _not_linear(coherency: ast.Coherency, query: ast.Query, template: Template) -> DeadbandError:
    if isinstance(template.shape, ExtremumAggregate):
        return not_supported_yet("COHERENCY on MIN and MAX", coherency.span)
    error = template.not_linear
    assert error is not None
    # The template may come from another query of the same signature: same tokens, other places.
    node_span = span_of(error.node, template.sql)
    same_text = template.sql.text == query.body.text
    span = query.body.span.within(node_span.start - template.sql.span.start, node_span.end - template.sql.span.start)
    return DeadbandError(
        "COHERENCY cannot be kept here",
        span if same_text else query.body.span,
        detail=error.reason,
        hint="COHERENCY is for SUM, AVG and COUNT of expressions affine in one keyed stream's values; "
        "without the clause the query runs exactly",
    )
