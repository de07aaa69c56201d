"""Comparisons as ranges: `attribute op bound`, however they were written.

`q.x BETWEEN s.lo AND s.hi`, `s.lo <= q.x`, `q.x - s.lo >= 0`, `ABS(q.x - s.m) <= s.w` all become ranges on q.x; terms
are moved over the comparison, so that what belongs to the data stands left and the rest right. A moved term may round
otherwise: ranges find candidates, and the condition itself decides at their edges.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from deadband.compiler.bind.block import aliases_of
from deadband.compiler.logical import Range

__all__ = ["Comparison", "comparisons", "number_of", "range_on"]

_OPS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Comparison:
    """Σ coefficient · atom + constant op 0; an atom is a column or an expression that is not affine."""

    atoms: tuple[tuple[exp.Expr, float], ...]
    constant: float
    op: str

    def columns(self) -> set[exp.Expr]:
        return {c for atom, _ in self.atoms for c in atom.find_all(exp.Column)}

    def aliases(self) -> set[str]:
        return {a for atom, _ in self.atoms for a in aliases_of(atom)}


def comparisons(condition: exp.Expr) -> list[Comparison] | None:
    """A conjunct as comparisons that must all hold, or None when it is none."""
    op = _OPS.get(type(condition))
    if op is None:
        return None
    left, right = condition.this, condition.expression
    if isinstance(right, exp.Abs):
        left, right, op = right, left, _FLIPPED[op]
    if isinstance(left, exp.Abs) and op in ("<", "<="):
        inside, width = _affine(left.this), _affine(right)
        return [_compare(_plus(inside, width, -1.0), op), _compare(_plus(inside, width, 1.0), _FLIPPED[op])]
    return [_compare(_plus(_affine(left), _affine(right), -1.0), op)]


def range_on(comparison: Comparison, data: Collection[str]) -> tuple[tuple[exp.Expr, ...], Range] | None:
    """The data's atoms and the range on them; None when no atom, or not only columns, belong to the data."""
    mine = [(a, c) for a, c in comparison.atoms if aliases_of(a) & set(data)]
    rest = [(a, c) for a, c in comparison.atoms if not aliases_of(a) & set(data)]
    if not mine or not all(isinstance(a, exp.Column) for a, _ in mine):
        return None
    scale = mine[0][1]
    op = comparison.op if scale > 0 else _FLIPPED[comparison.op]
    attribute = _text([(a, c / scale) for a, c in mine], 0.0)
    bound = _text([(a, -c / scale) for a, c in rest], -comparison.constant / scale)
    return tuple(a for a, _ in mine), Range(attribute, op, bound)


def number_of(node: exp.Expr) -> float | None:
    """The value of a numeric literal."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        value = float(node.this)
    except ValueError:  # digits of other scripts
        return None
    return value if math.isfinite(value) else None


# ---------------------------------------------------------------- affine forms with numeric coefficients

_Affine = tuple[dict[exp.Expr, float], float]


def _affine(node: exp.Expr) -> _Affine:
    if isinstance(node, exp.Paren):
        return _affine(node.this)
    if isinstance(node, exp.Neg):
        return _plus(({}, 0.0), _affine(node.this), -1.0)
    number = number_of(node)
    if number is not None:
        return {}, number
    if isinstance(node, exp.Add | exp.Sub):
        return _plus(_affine(node.this), _affine(node.expression), 1.0 if isinstance(node, exp.Add) else -1.0)
    if isinstance(node, exp.Mul):
        left, right = _affine(node.this), _affine(node.expression)
        for one, other in ((left, right), (right, left)):
            if not one[0]:
                return _plus(({}, 0.0), other, one[1])
    if isinstance(node, exp.Div):
        divisor = _affine(node.expression)
        if not divisor[0] and divisor[1] != 0:
            return _plus(({}, 0.0), _affine(node.this), 1 / divisor[1])
    return {node: 1.0}, 0.0


def _plus(a: _Affine, b: _Affine, scale: float) -> _Affine:
    atoms = dict(a[0])
    for atom, coefficient in b[0].items():
        atoms[atom] = atoms.get(atom, 0.0) + scale * coefficient
    return {k: v for k, v in atoms.items() if v != 0}, a[1] + scale * b[1]


def _compare(form: _Affine, op: str) -> Comparison:
    return Comparison(tuple(form[0].items()), form[1], op)


def _text(atoms: list[tuple[exp.Expr, float]], constant: float) -> str:
    """An affine form as people write it: q.x - 2 * s.lo + 3."""
    sizes = [(c, a.sql("spark") if abs(c) == 1 else f"{_figure(c)} * {a.sql('spark')}") for a, c in atoms]
    if constant or not sizes:
        sizes.append((constant, _figure(constant)))
    (first, size), *others = sizes
    return " ".join([f"{'-' if first < 0 else ''}{size}", *(f"{'-' if c < 0 else '+'} {s}" for c, s in others)])


def _figure(number: float) -> str:
    """The size of a number, with all its digits."""
    size = abs(number)
    return str(int(size)) if size.is_integer() and size < 1e15 else repr(size)
