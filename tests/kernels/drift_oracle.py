"""EmitOnDrift as one would write it on a blackboard: every sum anew at every tick, in fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from deadband.runtime.kernels import emit_on_drift as kernel
from deadband.runtime.kernels.emit_on_drift import AVG, COUNT, COUNT_TOTAL, ROWS_TOTAL, SUM, SUM_TOTAL

ALLOWANCE = 2.0**-50


@dataclass
class Case:
    """A wiring and its ticks, as plain lists."""

    items: int
    features: int
    values: list[tuple[int, tuple[int, ...]]]  # value slots: feature, features needed
    flags: list[tuple[int, ...]]  # flag slots: features needed
    value_edges: list[tuple[int, int, int, int, float]]  # item, value slot, group, answer, weight
    flag_edges: list[tuple[int, int, int, int, int, float]]  # item, flag slot, total, group, answer, weight
    kinds: list[int]
    offsets: list[float]
    defaults: list[float | None]
    percents: list[bool]
    bounds: list[list[float]]  # per group, per answer
    queries: list[int]  # per group
    always: list[bool]  # per group
    share: float
    ticks: list[tuple[int, list[tuple[int, list[float | None] | None]]]]  # window, (item, features or deleted)

    @property
    def query_count(self) -> int:
        return max(self.queries, default=0) + 1

    def wiring(self) -> kernel.Wiring:
        A = len(self.kinds)
        value = sorted((i * len(self.values) + v, g * A + a, w) for i, v, g, a, w in self.value_edges)
        flag = sorted(
            (i * len(self.flags) + k, g if total == ROWS_TOTAL else g * A + a, total, w)
            for i, k, total, g, a, w in self.flag_edges
        )
        return kernel.Wiring(
            value_feature=np.array([f for f, _ in self.values], np.int64),
            value_needs=np.array([bits(needs) for _, needs in self.values], np.uint64),
            value_start=starts([s for s, *_ in value], self.items * len(self.values)),
            value_target=np.array([t for _, t, _ in value], np.int32),
            value_weight=np.array([w for *_, w in value], np.float64),
            flag_needs=np.array([bits(needs) for needs in self.flags], np.uint64),
            flag_start=starts([s for s, *_ in flag], self.items * len(self.flags)),
            flag_target=np.array([t for _, t, _, _ in flag], np.int32),
            flag_total=np.array([t for _, _, t, _ in flag], np.int8),
            flag_weight=np.array([w for *_, w in flag], np.float64),
            kind=np.array(self.kinds, np.int8),
            offset=np.array(self.offsets),
            default=np.array([math.nan if d is None else d for d in self.defaults]),
            percent=np.array(self.percents, np.uint8),
            bound=np.array(self.bounds, np.float64).reshape(-1),
            query=np.array(self.queries, np.int32),
            always=np.array(self.always, np.uint8),
            share=np.array([self.share]),
        )

    def rows(self, first: int = 0, last: int | None = None) -> kernel.Rows:
        """The ticks first … last - 1 as the kernel takes them."""
        ticks = self.ticks[first:last]
        rows = [row for _, tick in ticks for row in sorted(tick, key=lambda r: r[0])]
        values = [[0.0] * self.features if fs is None else fs for _, fs in rows]
        return kernel.Rows(
            start=np.cumsum([0] + [len(t) for _, t in ticks]).astype(np.int64),
            item=np.array([i for i, _ in rows], np.int32),
            present=np.array([bits([f for f, v in enumerate(fs) if v is not None]) for fs in values], np.uint64),
            deleted=np.array([fs is None for _, fs in rows], np.uint8),
            feature=np.array([[v or 0.0 for v in fs] for fs in values], np.float64).reshape(len(rows), self.features),
            window=np.array([w for w, _ in ticks], np.int64),
        )


def bits(features) -> int:
    return sum(1 << f for f in features)


def starts(slots: list[int], count: int) -> np.ndarray:
    return np.array([sum(s < slot for s in slots) for slot in range(count + 1)], np.int64)


@dataclass
class Life:
    """One stretch of ticks in which a group exists, seen from within one window."""

    ticks: int = 0
    missed: int = 0


@dataclass
class Truths:
    """What plain SQL has for a group at a tick; sums are exact."""

    rows: Fraction
    value: list[Fraction | None]
    rounded: list[float | None]
    allowance: list[float]


@dataclass
class Oracle:
    """Runs a case; `log` has (tick, group, diff, answers), `forced` the answers in force after every tick."""

    case: Case
    log: list[tuple] = field(default_factory=list)
    truths: list[list[Truths]] = field(default_factory=list)
    in_force: list[dict[int, list[float | None]]] = field(default_factory=list)
    counts: np.ndarray = field(init=False)
    max_error: np.ndarray = field(init=False)
    worst_share: np.ndarray = field(init=False)
    shares: list[tuple[int, int, Fraction]] = field(default_factory=list)  # tick, group, share of its window so far

    def __post_init__(self):
        case = self.case
        self.counts = np.zeros((case.query_count, 5), np.int64)
        self.max_error, self.worst_share = np.zeros(case.query_count), np.ones(case.query_count)
        state: dict[int, list[float | None]] = {}  # item -> features; absent: never came or deleted
        ceilings: dict[tuple[int, int], float] = {}  # item, value slot -> power of two above every value
        ever_on: set[tuple[int, int]] = set()
        reported: dict[int, list[float | None]] = {}
        before: dict[int, list[float | None]] = {}
        lives: dict[int, Life] = {}
        window = None
        for tick, (here, rows) in enumerate(case.ticks):
            for item, features in rows:
                state.pop(item, None)
                if features is not None:
                    state[item] = features
            for item in state:
                for v in range(len(case.values)):
                    x = abs(self.slot_value(state, item, v))
                    while x and ceilings.get((item, v), 0.0) < x:
                        ceilings[item, v] = 2.0 ** math.ceil(math.log2(x))
                ever_on |= {(item, k) for k, needs in enumerate(case.flags) if self.is_on(state, item, needs)}
            if here != window:
                window = here
                for group in lives:
                    self.close(group, lives[group])
                    lives[group] = Life()
            self.truths.append([self.truth(state, ceilings, ever_on, g) for g in range(len(case.queries))])
            for group, truth in enumerate(self.truths[-1]):
                self.decide(tick, group, truth, reported, before, lives)
            self.in_force.append({g: list(a) for g, a in reported.items()})
        for group, life in lives.items():
            self.close(group, life)

    def decide(self, tick, group, truth, reported, before, lives):
        case = self.case
        counts = self.counts[case.queries[group]]
        if not (truth.rows > 0 or case.always[group]):
            if group in reported:
                self.log.append((tick, group, -1, reported.pop(group)))
                self.close(group, lives.pop(group))
                counts[kernel.REPORTED] += 1
                counts[kernel.BASELINE] += 1
            return
        now = truth.rounded
        if group not in reported:
            self.log.append((tick, group, 1, now))
            reported[group], before[group], lives[group] = now, now, Life(ticks=1)
            counts[kernel.INITIAL] += 1
            counts[kernel.GROUP_TICKS] += 1
            return
        last, life = reported[group], lives[group]
        life.ticks += 1
        counts[kernel.GROUP_TICKS] += 1
        counts[kernel.BASELINE] += now != before[group]
        before[group] = now
        null_changed = any((x is None) != (y is None) for x, y in zip(now, last))
        errors = [0.0 if x is None or y is None else abs(x - y) for x, y in zip(now, last)]
        limits = [b * abs(y or 0.0) if p else b for b, p, y in zip(case.bounds[group], case.percents, last)]
        out = any(e > max(limit - a, 0.0) for e, limit, a in zip(errors, limits, self.allowances(truth, last)))
        passing = out and not null_changed and case.share < 1
        if passing and Fraction(life.ticks - life.missed - 1, life.ticks) >= Fraction(str(case.share)):
            life.missed += 1
            counts[kernel.VIOLATIONS] += 1
            out = False
        query = case.queries[group]
        if out or null_changed:
            self.log.append((tick, group, 1, now))
            reported[group] = now
            counts[kernel.REPORTED] += 1
        else:
            self.max_error[query] = max(self.max_error[query], *errors)
        self.shares.append((tick, group, Fraction(life.ticks - life.missed, life.ticks)))

    def allowances(self, truth, last):
        case = self.case
        return [
            0.0 if kind == COUNT else ALLOWANCE * (size + abs(offset) + abs(y or 0.0))
            for kind, size, offset, y in zip(case.kinds, truth.allowance, case.offsets, last)
        ]

    def close(self, group, life):
        if life.missed:
            query = self.case.queries[group]
            self.worst_share[query] = min(self.worst_share[query], (life.ticks - life.missed) / life.ticks)

    def is_on(self, state, item, needs) -> bool:
        return item in state and all(state[item][f] is not None for f in needs)

    def slot_value(self, state, item, v) -> float:
        feature, needs = self.case.values[v]
        return state[item][feature] if self.is_on(state, item, needs) else 0.0

    def truth(self, state, ceilings, ever_on, group) -> Truths:
        case = self.case
        rows = sum(
            (Fraction(w) for i, k, total, g, _, w in case.flag_edges
             if total == ROWS_TOTAL and g == group and self.is_on(state, i, case.flags[k])),
            Fraction(0),
        )  # fmt: skip
        value: list[Fraction | None] = []
        rounded: list[float | None] = []
        sizes = []
        for a, kind in enumerate(case.kinds):
            products = [(i, v, w) for i, v, g, b, w in case.value_edges if (g, b) == (group, a) and i in state]
            flags = [(i, k, t, w) for i, k, t, g, b, w in case.flag_edges if (g, b) == (group, a) and t != ROWS_TOTAL]
            on = [(t, w) for i, k, t, w in flags if self.is_on(state, i, case.flags[k])]
            count = sum((Fraction(w) for t, w in on if t == COUNT_TOTAL), Fraction(0))
            constant = sum((Fraction(w) for t, w in on if t == SUM_TOTAL), Fraction(0))
            exact = constant + sum(Fraction(w) * Fraction(self.slot_value(state, i, v)) for i, v, w in products)
            as_floats = constant + sum(Fraction(w * self.slot_value(state, i, v)) for i, v, w in products)
            if kind == COUNT:
                value.append(count + Fraction(case.offsets[a]))
                rounded.append(float(count) + case.offsets[a])
            elif count <= 0:
                default = case.defaults[a]
                value.append(None if default is None else Fraction(default))
                rounded.append(default)
            else:
                by = count if kind == AVG else Fraction(1)
                assert kind in (AVG, SUM)
                value.append(exact / by + Fraction(case.offsets[a]))
                rounded.append(float(as_floats) / float(by) + case.offsets[a])
            size = sum(
                abs(w) * ceilings.get((i, v), 0.0) for i, v, g, b, w in case.value_edges if (g, b) == (group, a)
            ) + sum(abs(w) for i, k, t, w in flags if t == SUM_TOTAL and (i, k) in ever_on)
            sizes.append(float(size) / max(float(count), 1.0) if kind == AVG else float(size))
        return Truths(rows, value, rounded, sizes)
