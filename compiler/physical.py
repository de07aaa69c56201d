"""What runs: one class per physical operator. EXPLAIN shows op, method, detail, estimate and children of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from sqlglot import exp

from deadband.compiler.catalog import Stream
from deadband.compiler.logical import Group, ItemAggregate, LinearAggregate
from deadband.compiler.statistics import FilterStatistics, Known, Statistics

if TYPE_CHECKING:
    from deadband.compiler.lower.as_of import AsOf


@dataclass(frozen=True)
class StreamScan:
    """Rows of a stream, as they arrive."""

    op: ClassVar[str] = "StreamScan"
    stream: Stream
    method: str = "push"

    def detail(self) -> dict[str, Any]:
        s = self.stream
        return {
            "stream": s.name,
            "key": [s.spelling[k] for k in s.key],
            "time": s.spelling[s.timestamp],
            "lateness_s": s.lateness,
            "source": s.format or "frames given to replay or start",
        }

    def estimate(self) -> dict[str, Any]:
        return {}

    @property
    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class StaticScan:
    """A static table, read when the query is created and at REFRESH TABLE."""

    op: ClassVar[str] = "StaticScan"
    table: str
    method: str = "spark"

    def detail(self) -> dict[str, Any]:
        return {"table": self.table}

    def estimate(self) -> dict[str, Any]:
        return {}

    @property
    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Weights:
    """The weights query: item, group -> coefficients. Spark runs it over the static side, for all keys or new ones."""

    op: ClassVar[str] = "Weights"
    query: exp.Select
    tables: tuple[str, ...]
    statistics: Known | None = None
    method: str = "spark"

    def detail(self) -> dict[str, Any]:
        return {"sql": self.query.sql("spark", pretty=True)}

    def estimate(self) -> dict[str, Any]:
        s = self.statistics
        return {} if s is None else {"items": s.items, "groups": s.groups, "edges": s.edges}

    @property
    def children(self) -> tuple[Node, ...]:
        return tuple(StaticScan(t) for t in self.tables)


@dataclass(frozen=True)
class Slot:
    """A number kept per item: the feature's value (1 where feature is None) while every needed feature is not NULL."""

    feature: int | None
    needs: tuple[int, ...]


@dataclass(frozen=True)
class Edge:
    """A column of the weights query and where it goes: slot · weight is added to a total of an answer."""

    column: str
    slot: int
    total: str  # rows, count or sum
    answer: int  # -1 for rows


@dataclass(frozen=True)
class Candidate:
    """A column of the weights query: the distinct (constant, weights) with which an item competes in a MIN or MAX."""

    column: str
    answer: int
    flag: int  # the slot that is 1 while nothing the item needs is NULL
    slots: tuple[int, ...]  # one value per weight, in order


@dataclass(frozen=True)
class EmitOnDrift:
    """Keeps every group's answer incrementally and reports it when the truth has left the bound."""

    op: ClassVar[str] = "EmitOnDrift"
    group: Group
    weights: Weights
    features: tuple[exp.Expr, ...]
    slots: tuple[Slot, ...]
    edges: tuple[Edge, ...]
    statistics: Statistics | None = None
    method: str = "incremental"

    @property
    def shape(self) -> LinearAggregate:
        shape = self.group.first.shape
        assert isinstance(shape, LinearAggregate)
        return shape

    def detail(self) -> dict[str, Any]:
        promise = self.group.first.promise
        found: dict[str, Any] = {
            "features": [f.sql("spark") for f in self.features],
            "where": "driver kernel for small input, else executors, groups cut into blocks",
        }
        if promise.share < 1:
            window = "the run" if promise.window is None else f"{promise.window:g} s"
            found["slack"] = f"up to {1 - promise.share:.6g} of the ticks of {window} may pass unreported, per group"
        if len(self.group.queries) > 1:
            found["folded"] = _folded(self.group)
        return found

    def estimate(self) -> dict[str, Any]:
        return {} if self.statistics is None else self.statistics.estimate()

    @property
    def children(self) -> tuple[Node, ...]:
        return (StreamScan(self.shape.stream), self.weights)


@dataclass(frozen=True)
class AdaptiveFilter:
    """Keeps every group's answer in an interval: each item has a width, and its site sends it when it leaves that."""

    op: ClassVar[str] = "AdaptiveFilter"
    group: Group
    weights: Weights
    features: tuple[exp.Expr, ...]
    slots: tuple[Slot, ...]
    edges: tuple[Edge, ...]
    candidates: tuple[Candidate, ...]
    statistics: FilterStatistics | None = None

    @property
    def method(self) -> str:
        return self.group.first.promise.method

    @property
    def shape(self) -> ItemAggregate:
        shape = self.group.first.shape
        assert isinstance(shape, ItemAggregate)
        return shape

    def detail(self) -> dict[str, Any]:
        stream, known = self.shape.stream, self.statistics
        found: dict[str, Any] = {
            "features": [f.sql("spark") for f in self.features],
            "method": _FILTERS[self.method],
            "sites": [stream.spelling[s] for s in stream.source_by] or "each key",
            "widths": _NO_FILTER if self.method == "none" else _EQUAL if known is None else _widths(known),
        }
        if known is not None:
            found["budgets"] = [f"{group}: {used:.6g} of {allowed:.6g}" for group, used, allowed in known.budgets]
            found["fixed"] = f"{known.fixed:,} of {known.items:,} items keep one width"
            found["composites"] = f"{known.composites:,} items put together at their site"
        if stream.message_cost is not None:
            found["message_cost"] = stream.spelling[stream.message_cost]
        rate = stream.change_rate
        if rate is not None:
            amount = stream.spelling[rate] if isinstance(rate, str) else f"{rate:.6g}"
            found["change_rate"] = f"{amount} a second: intervals are padded by it"
        found["where"] = _FILTER_PLACES
        if len(self.group.queries) > 1:
            found["folded"] = _folded(self.group)
        return found

    def estimate(self) -> dict[str, Any]:
        return {} if self.statistics is None else self.statistics.estimate()

    @property
    def children(self) -> tuple[Node, ...]:
        return (StreamScan(self.shape.stream), self.weights)


@dataclass(frozen=True)
class SparkExact:
    """The body itself on Spark, as changes from tick to tick."""

    op: ClassVar[str] = "SparkExact"
    group: Group
    as_of: AsOf
    streams: tuple[Stream, ...] = field(default=())
    tables: tuple[str, ...] = field(default=())

    @property
    def method(self) -> str:
        return self.as_of.form

    def detail(self) -> dict[str, Any]:
        found: dict[str, Any] = {"form": _FORMS[self.as_of.form], "why": self.as_of.reason}
        found["sql"] = self.as_of.query.sql("spark", pretty=True)
        if len(self.group.queries) > 1:
            found["folded"] = _folded(self.group)
        return found

    def estimate(self) -> dict[str, Any]:
        return {"spark_jobs": "one a tick" if self.as_of.form == "jobs" else "one for all ticks"}

    @property
    def children(self) -> tuple[Node, ...]:
        return (*(StreamScan(s) for s in self.streams), *(StaticScan(t) for t in self.tables))


def _widths(known: FilterStatistics) -> list[str]:
    return [f"{item}: {width:.6g}, {messages:.4g} messages a tick" for item, width, messages in known.widths]


def _folded(group: Group) -> str:
    literals = len(group.first.literals)
    return f"{len(group.queries)} queries that differ in {literals} literal{'' if literals == 1 else 's'}"


Node: TypeAlias = StreamScan | StaticScan | Weights | EmitOnDrift | AdaptiveFilter | SparkExact
Operator: TypeAlias = EmitOnDrift | AdaptiveFilter | SparkExact

_FORMS = {
    "versions": "one job over the versions of the rows: cost follows the updates",
    "ticks": "one as-of job over all ticks: cost follows live keys x ticks",
    "jobs": "one job a tick over the state of the streams",
}

_FILTERS = {
    "adaptive": "widths by what each would cost, moved where the messages saved outweigh the control messages",
    "reference": "all widths shrink now and then, and grow where an item sends much for its width",
    "uniform": "equal widths, which stay",
    "none": "no filter",
}
_EQUAL = "equal rates are assumed: every item gets the same width"
_NO_FILTER = "none: every update that matters is sent"
_FILTER_PLACES = (
    "live: filters on executors by site, the coordinator on the driver; replay: both in one kernel per component"
)
