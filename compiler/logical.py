"""What a query means: its shape, its answers and its promises. Expressions are sqlglot's, qualified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from sqlglot import exp

from deadband.compiler import ast
from deadband.compiler.catalog import Stream

if TYPE_CHECKING:
    from deadband.compiler.bind.template import Template

# ---------------------------------------------------------------- parts of shapes


@dataclass(frozen=True)
class Part:
    """coefficients · features + constant, for the joined rows that satisfy the condition.

    Features are functions of one stream row; coefficients, constant and condition are static. A joined row counts
    through at most one part of an answer, and only when nothing in that part is NULL.
    """

    condition: exp.Expr | None
    terms: tuple[tuple[exp.Expr, exp.Expr], ...]  # feature (over the stream's bare columns), coefficient
    constant: exp.Expr


@dataclass(frozen=True)
class Answer:
    """One aggregate column: kind(parts) + offset, or `default` where that is NULL. Factors are in the parts."""

    name: str
    kind: str  # SUM, AVG, COUNT, MIN or MAX
    parts: tuple[Part, ...]
    offset: float
    default: float | None
    text: str  # as it was written


@dataclass(frozen=True)
class Output:
    """A column of the result: answer number `answer`, or the static expression."""

    name: str
    answer: int | None
    expression: exp.Expr | None


@dataclass(frozen=True)
class Range:
    """A bound on an attribute of the data: attribute op bound, where bound belongs to the subscription."""

    attribute: str
    op: str  # =, <, <=, > or >=
    bound: str

    def __str__(self) -> str:
        return f"{self.attribute} {self.op} {self.bound}"


# ---------------------------------------------------------------- shapes


@dataclass(frozen=True)
class ItemAggregate:
    """Aggregates over the items of one stream, weights from static tables: what LinearAggregate and its like share."""

    name: ClassVar[str]
    stream: Stream
    alias: str
    select: exp.Select
    groups: tuple[exp.Expr, ...]
    outputs: tuple[Output, ...]
    answers: tuple[Answer, ...]

    def detail(self) -> dict[str, Any]:
        return {
            "stream": self.stream.name,
            "groups": [g.sql("spark") for g in self.groups],
            "answers": [a.text for a in self.answers],
            "features": [f.sql("spark") for f in self.features],
        }

    @property
    def features(self) -> list[exp.Expr]:
        """The functions of a stream row that the answers are affine in, each once."""
        found = dict.fromkeys(f for a in self.answers for p in a.parts for f, _ in p.terms)
        return list(found)


@dataclass(frozen=True)
class LinearAggregate(ItemAggregate):
    """SUM, AVG and COUNT of expressions affine in one stream's values."""

    name: ClassVar[str] = "LinearAggregate"


@dataclass(frozen=True)
class ExtremumAggregate(ItemAggregate):
    """MIN and MAX over items of one stream, SUM, AVG and COUNT beside them."""

    name: ClassVar[str] = "ExtremumAggregate"


@dataclass(frozen=True)
class RangeAggregate:
    """Aggregates of the rows inside a range per subscription."""

    name: ClassVar[str] = "RangeAggregate"
    stream: Stream
    subscriptions: str | None  # the table or stream of them; None: the literals of the query itself
    ranges: tuple[Range, ...]
    answers: tuple[str, ...]
    where: tuple[str, ...] = ()  # conditions on the subscriptions alone

    def detail(self) -> dict[str, Any]:
        return {
            "stream": self.stream.name,
            "subscriptions": self.subscriptions or "literals",
            "ranges": [str(r) for r in self.ranges],
            "answers": list(self.answers),
            **({"where": list(self.where)} if self.where else {}),
        }


@dataclass(frozen=True)
class RangeSelect:
    """The rows inside ranges per subscription, in one or more attributes."""

    name: ClassVar[str] = "RangeSelect"
    stream: Stream
    subscriptions: str | None
    ranges: tuple[Range, ...]
    where: tuple[str, ...] = ()  # conditions on the subscriptions alone

    def detail(self) -> dict[str, Any]:
        return {
            "stream": self.stream.name,
            "subscriptions": self.subscriptions or "literals",
            "ranges": [str(r) for r in self.ranges],
            **({"where": list(self.where)} if self.where else {}),
        }


@dataclass(frozen=True)
class BandJoin:
    """R ⋈ S on a difference inside a band per subscription."""

    name: ClassVar[str] = "BandJoin"
    left: str
    right: str
    subscriptions: str | None
    bands: tuple[Range, ...]
    selections: tuple[Range, ...]
    equalities: tuple[str, ...] = ()
    where: tuple[str, ...] = ()  # conditions on the subscriptions alone

    def detail(self) -> dict[str, Any]:
        return {
            "left": self.left,
            "right": self.right,
            "subscriptions": self.subscriptions or "literals",
            "bands": [str(r) for r in self.bands],
            "selections": [str(r) for r in self.selections],
            "equalities": list(self.equalities),
            **({"where": list(self.where)} if self.where else {}),
        }


@dataclass(frozen=True)
class SelectJoin:
    """R ⋈ S on equality, with selections on R and S per subscription."""

    name: ClassVar[str] = "SelectJoin"
    left: str
    right: str
    subscriptions: str | None
    equalities: tuple[str, ...]
    selections: tuple[Range, ...]
    where: tuple[str, ...] = ()  # conditions on the subscriptions alone

    def detail(self) -> dict[str, Any]:
        return {
            "left": self.left,
            "right": self.right,
            "subscriptions": self.subscriptions or "literals",
            "equalities": list(self.equalities),
            "selections": [str(r) for r in self.selections],
            **({"where": list(self.where)} if self.where else {}),
        }


@dataclass(frozen=True)
class EquiJoin:
    """Two streams joined on equality."""

    name: ClassVar[str] = "EquiJoin"
    left: str
    right: str
    equalities: tuple[str, ...]

    def detail(self) -> dict[str, Any]:
        return {"left": self.left, "right": self.right, "equalities": list(self.equalities)}


@dataclass(frozen=True)
class Exact:
    """Everything else; `reason` says which part keeps it from a narrower shape."""

    name: ClassVar[str] = "Exact"
    reason: str

    def detail(self) -> dict[str, Any]:
        return {"reason": self.reason}


Shape: TypeAlias = (
    LinearAggregate | ExtremumAggregate | RangeAggregate | RangeSelect | BandJoin | SelectJoin | EquiJoin | Exact
)

# ---------------------------------------------------------------- queries


@dataclass(frozen=True)
class Promise:
    """What the clauses ask for; bounds has one entry per answer, in order, None where the answer is kept exactly."""

    kind: str | None = None  # COHERENCY, PRECISION or None
    bounds: tuple[ast.Bound | None, ...] = ()
    share: float = 1.0
    window: float | None = None  # seconds; None: the whole run
    emit_every: float | None = None  # seconds; None: every tick
    method: str = ""  # PRECISION: the setting `filters` when the query was created or altered


@dataclass(frozen=True)
class Body:
    """A qualified body with its streams and tables, and the names of its columns as they were written."""

    query: exp.Query
    streams: tuple[Stream, ...]
    tables: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Query:
    """One continuous query, bound."""

    name: str
    body: Body
    shape: Shape
    promise: Promise
    into: ast.Into | None
    template: Template = field(compare=False, repr=False)
    literals: tuple[str | int | float, ...] = ()  # what folds: the values of the template's parameters


@dataclass(frozen=True)
class Group:
    """Queries that differ only in literals and bounds, executed together; the first stands for all."""

    queries: tuple[Query, ...]

    @property
    def first(self) -> Query:
        return self.queries[0]
