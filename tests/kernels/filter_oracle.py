"""Adaptive filters as one would check them by hand: every answer from scratch at every tick, in fractions.

A Case is a wiring and its ticks as plain lists. Oracle says what plain SQL has. Session runs the kernel and checks the
law after every tick: truth inside, width within the bound, NULL and groups as SQL has them, nothing lost in the state.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from deadband.compiler.planning.cost_curves import GRID
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_state import AVG, COUNT, COUNT_TOTAL, MAX, MIN, ROWS_TOTAL, SUM, SUM_TOTAL
from deadband.runtime.operators.adaptive_filter import run

METHODS = ("adaptive", "reference", "uniform", "none")
ROUNDING = Fraction(1, 2**50)  # what plain SQL's own sum may be off by, as a share of Σ|w·x|
LOST = Fraction(1, 2**94)  # what a pair of doubles may lose of the largest sum it ever held
ZERO = Fraction(0)


@dataclass(frozen=True)
class Cell:
    """One answer of a group, and what is promised."""

    kind: int
    bound: float = 1.0
    percent: bool = False
    offset: float = 0.0
    default: float | None = None


@dataclass
class Case:
    """Targets belong to (group, cell in it). A tick is a list of (item, features, or None: deleted)."""

    items: int
    features: int
    values: list[tuple[int, tuple[int, ...]]]  # value slots: feature, features needed
    flags: list[tuple[int, ...]]  # flag slots: features needed
    groups: list[list[Cell]]
    always: list[bool]
    targets: list[tuple[int, int]]
    value_edges: list[tuple[int, int, int, float]]  # item, value slot, target, weight
    flag_edges: list[tuple[int, int, int, int, float]]  # item, flag slot, total, target or group, weight
    ticks: list[list[tuple[int, list[float | None] | None]]] = field(default_factory=list)
    cost: list[float] | None = None  # per item
    pad: list[float] | None = None  # per item and feature

    def wiring(self) -> fs.Wiring:
        V, K, F = len(self.values), len(self.flags), self.features
        first = np.cumsum([0] + [len(cells) for cells in self.groups])
        cells = [c for group in self.groups for c in group]
        value = sorted((i * V + v, t, w) for i, v, t, w in self.value_edges)
        flag = sorted((i * K + k, t, total, w) for i, k, total, t, w in self.flag_edges)
        by_target = sorted((t, s, abs(w)) for s, t, w in value)
        cell_of = [int(first[g]) + c for g, c in self.targets]
        by_feature = sorted((f, v) for v, (f, _) in enumerate(self.values))
        return fs.Wiring(
            value_feature=np.array([f for f, _ in self.values], np.int64),
            value_needs=np.array([bits(needs) for _, needs in self.values], np.uint64),
            value_start=starts([s for s, *_ in value], self.items * V),
            value_target=np.array([t for _, t, _ in value], np.int32),
            value_weight=np.array([w for *_, w in value], np.float64),
            value_load=np.array([abs(w) for *_, w in value], np.float64),
            flag_needs=np.array([bits(needs) for needs in self.flags], np.uint64),
            flag_start=starts([s for s, *_ in flag], self.items * K),
            flag_target=np.array([t for _, t, _, _ in flag], np.int32),
            flag_total=np.array([total for _, _, total, _ in flag], np.int8),
            flag_weight=np.array([w for *_, w in flag], np.float64),
            feature_start=starts([f for f, _ in by_feature], F),
            feature_slot=np.array([v for _, v in by_feature], np.int64),
            target_start=starts([t for t, *_ in by_target], len(self.targets)),
            target_slot=np.array([s for _, s, _ in by_target], np.int64),
            target_load=np.array([w for *_, w in by_target], np.float64),
            target_cell=np.array(cell_of, np.int32),
            target_group=np.array([g for g, _ in self.targets], np.int32),
            cell_start=starts(cell_of, len(cells)),
            cell_target=np.array(sorted(range(len(cell_of)), key=lambda t: (cell_of[t], t)), np.int32),
            cell_kind=np.array([c.kind for c in cells], np.int8),
            cell_offset=np.array([c.offset for c in cells], np.float64),
            cell_default=np.array([math.nan if c.default is None else c.default for c in cells], np.float64),
            cell_bound=np.array([c.bound for c in cells], np.float64),
            cell_percent=np.array([c.percent for c in cells], np.uint8),
            group_start=first.astype(np.int64),
            group_always=np.array(self.always, np.uint8),
            cost=np.repeat(np.array(self.cost or [1.0] * self.items), F),
            floor=np.zeros(1),
            pad=np.array(self.pad or [0.0] * (self.items * F)),
        )

    def rows(self, ticks) -> fs.Rows:
        """Ticks as the kernel takes them."""
        rows = [row for tick in ticks for row in sorted(tick, key=lambda r: r[0])]
        values = [[0.0] * self.features if x is None else x for _, x in rows]
        return fs.Rows(
            start=np.cumsum([0] + [len(t) for t in ticks]).astype(np.int64),
            item=np.array([i for i, _ in rows], np.int32),
            present=np.array([bits(f for f, v in enumerate(x) if v is not None) for x in values], np.uint64),
            deleted=np.array([x is None for _, x in rows], np.uint8),
            feature=np.array([[v or 0.0 for v in x] for x in values], np.float64).reshape(len(rows), self.features),
        )


def bits(features) -> int:
    return sum(1 << f for f in features)


def starts(slots: list[int], count: int) -> np.ndarray:
    return np.searchsorted(np.sort(np.array(slots, np.int64)), np.arange(count + 1)).astype(np.int64)


@dataclass(frozen=True)
class Truth:
    """An answer: all that it may be while what was not seen stays within the pads, and what doubles may be off by."""

    low: Fraction
    high: Fraction
    blur: Fraction
    lost: Fraction = ZERO  # what a pair of doubles may have lost on the way here


class Oracle:
    """truths[tick][group]: None where plain SQL has no such group, else a list with a Truth, or None for NULL."""

    def __init__(self, case: Case):
        self.now: dict[int, list[Fraction | None]] = {}  # item -> its row; absent: never came or deleted
        self.most: dict[tuple[int, int], Fraction] = defaultdict(Fraction)  # item, feature -> the largest value ever
        self.truths: list[list[list[Truth | None] | None]] = []
        self.rewire(case)

    def rewire(self, case: Case) -> None:
        self.case = case
        self.value, self.flag, self.rows = defaultdict(list), defaultdict(list), defaultdict(list)
        pad = case.pad or [0.0] * (case.items * case.features)
        for i, v, t, w in case.value_edges:
            feature, needs = case.values[v]
            self.value[t].append((i, feature, needs, Fraction(w), Fraction(pad[i * case.features + feature]) / 2))
        for i, k, total, t, w in case.flag_edges:
            (self.rows if total == ROWS_TOTAL else self.flag)[t].append((i, case.flags[k], total, Fraction(w)))
        self.competing = defaultdict(list)
        for t, cell in enumerate(case.targets):
            self.competing[cell].append(t)

    def take(self, rows) -> None:
        for item, features in rows:
            self.now.pop(item, None)
            if features is not None:
                self.now[item] = [None if x is None else Fraction(x) for x in features]
                for f, x in enumerate(features):
                    self.most[item, f] = max(self.most[item, f], abs(Fraction(x or 0.0)))
        self.truths.append([self.group(g) for g in range(len(self.case.groups))])

    def is_on(self, item, needs) -> bool:
        return item in self.now and all(self.now[item][f] is not None for f in needs)

    def group(self, g) -> list[Truth | None] | None:
        rows = sum(w for i, needs, _, w in self.rows[g] if self.is_on(i, needs))
        if not (rows > 0 or self.case.always[g]):
            return None
        return [self.answer(cell, self.competing[g, c]) for c, cell in enumerate(self.case.groups[g])]

    def answer(self, cell: Cell, targets) -> Truth | None:
        found = [self.target(cell, t) for t in targets]
        found = [f for f in found if f is not None]
        if not found:
            return None if cell.default is None else Truth(Fraction(cell.default), Fraction(cell.default), ZERO)
        if cell.kind in (MIN, MAX):
            best = min if cell.kind == MIN else max
            blur, lost = max(f.blur for f in found), max(f.lost for f in found)
            return Truth(best(f.low for f in found), best(f.high for f in found), blur, lost)
        assert len(found) == 1
        return found[0]

    def target(self, cell: Cell, t) -> Truth | None:
        on = [(total, w) for i, needs, total, w in self.flag[t] if self.is_on(i, needs)]
        count = sum((w for total, w in on if total == COUNT_TOTAL), ZERO)
        offset = Fraction(cell.offset)
        if cell.kind == COUNT:
            return Truth(count + offset, count + offset, ROUNDING * (count + abs(offset)))
        if count <= 0:
            return None
        constants = [w for total, w in on if total == SUM_TOTAL]
        edges = [(w, self.now[i][f], pad) for i, f, needs, w, pad in self.value[t] if self.is_on(i, needs)]
        total = sum(constants, ZERO) + sum((w * x for w, x, _ in edges), ZERO)
        spare = sum((abs(w) * pad for w, _, pad in edges), ZERO)
        size = sum((abs(w) for w in constants), ZERO) + sum((abs(w * x) for w, x, _ in edges), ZERO)
        ever = sum((abs(w) * self.most[i, f] for i, f, _, w, _ in self.value[t]), ZERO)
        by = count if cell.kind == AVG else Fraction(1)
        blur = ROUNDING * (size / by + abs(offset)) + LOST * ever
        return Truth((total - spare) / by + offset, (total + spare) / by + offset, blur, LOST * ever)


class Session:
    """The kernel over ticks, in steps, with one method; every step is checked tick by tick."""

    def __init__(self, case: Case, method: str, oracle: Oracle | None = None, history=None):
        self.case, self.method, self.history = case, method, history
        self.wiring = case.wiring()
        self.state = fs.new_state(self.wiring, case.items, GRID)
        self.oracle = oracle or Oracle(case)
        self.in_force: dict[int, list[tuple[float, float]]] = {}
        self.log: list[tuple] = []  # tick, group, diff, cells
        self.ticks = 0
        self.again: dict[int, int] = defaultdict(int)  # group -> answers after the first
        self.widest: dict[int, Fraction] = defaultdict(Fraction)  # target -> its largest spread ever
        self.dusty = False  # some answer was wide by no more than what a pair of doubles keeps

    def step(self, ticks, checked: bool = True) -> None:
        emitted = run(self.wiring, self.state, self.case.rows(ticks), self.method, self.history)
        reports = defaultdict(list)
        for part in emitted:
            for r in range(len(part.tick)):
                cells = slice(part.cell_start[r], part.cell_start[r + 1])
                answers = list(zip(part.low[cells].tolist(), part.high[cells].tolist()))
                reports[int(part.tick[r])].append((int(part.group[r]), int(part.diff[r]), answers))
        for k, rows in enumerate(ticks):
            for report in sorted(reports[k], key=lambda r: r[0]):
                self.log.append((self.ticks, *report))
                self.report(*report, checked)
            if checked:
                if len(self.oracle.truths) <= self.ticks:
                    self.oracle.take(rows)
                self.check(self.oracle.truths[self.ticks])
            self.ticks += 1
        if checked:
            self.check_state()

    def rewire(self, case: Case, anew: bool = False) -> None:
        """The same filters for more items and groups; anew: old items weigh in new targets."""
        self.case, self.wiring = case, case.wiring()
        self.state = fs.grown(self.state, fs.new_state(self.wiring, case.items, GRID))
        self.oracle.rewire(case)
        if anew:
            kernel.sum_anew(self.wiring, self.state)
            kernel.touch_all(self.state)

    def promise(self, bounds) -> None:
        """Other bounds from the next tick on, one per cell."""
        left = iter(bounds)
        groups = [[replace(cell, bound=next(left)) for cell in cells] for cells in self.case.groups]
        self.case = replace(self.case, groups=groups)
        self.wiring = self.wiring._replace(cell_bound=np.array(bounds, np.float64))
        kernel.touch_all(self.state)

    def report(self, group, diff, answers, checked) -> None:
        last = self.in_force.pop(group, None)
        if checked:
            assert len(answers) == len(self.case.groups[group])
            assert diff == 1 or repr(last) == repr(answers), "withdrawn with what was in force"
            assert diff == -1 or repr(last) != repr(answers), "the same answer again"
        if diff == 1:
            self.in_force[group] = answers
            self.again[group] += last is not None

    def check(self, truths) -> None:
        """The answers in force against plain SQL."""
        for group, truth in enumerate(truths):
            assert (group in self.in_force) == (truth is not None), (self.ticks, group)
            if truth is None:
                continue
            for c, (cell, (low, high), true) in enumerate(zip(self.case.groups[group], self.in_force[group], truth)):
                where = (self.method, self.ticks, group, cell, low, high, true and (float(true.low), float(true.high)))
                assert math.isnan(low) == math.isnan(high) == (true is None), where
                if true is None:
                    continue
                low, high = Fraction(low), Fraction(high)
                assert low - true.blur <= true.low and true.high <= high + true.blur, where
                bound = Fraction(cell.bound)
                if cell.percent and cell.kind != COUNT:
                    bound *= min(abs(low), abs(high))
                dust = LOST * max((self.widest[t] for t in self.oracle.competing[group, c]), default=ZERO)
                if high - low <= dust + 8 * true.lost:  # what a pair of doubles keeps of a spread that went to 0
                    self.dusty = self.dusty or high > low
                    continue
                assert not (cell.percent and low < 0 < high), where
                assert high - low <= (ZERO if cell.kind == COUNT else bound), where

    def check_state(self) -> None:
        """What is kept as totals is what the filters add up to, and every site is within its filter."""
        case, state, F = self.case, self.state, self.case.features
        T = len(case.targets)
        spread, total, most = [ZERO] * T, [ZERO] * T, [ZERO] * T
        active = np.zeros(case.items * F, bool)
        for i, v, t, w in case.value_edges:
            f, needs = case.values[v]
            if self.is_on(i, needs):
                j = i * F + f
                active[j] = True
                spread[t] += Fraction(abs(w)) * Fraction(state.width[j] + self.wiring.pad[j])
                total[t] += Fraction(w) * Fraction(state.centre[j])
                most[t] += abs(Fraction(w) * Fraction(state.centre[j]))
        for i, k, kind, t, w in case.flag_edges:
            if kind == SUM_TOTAL and self.is_on(i, case.flags[k]):
                total[t] += Fraction(w)
                most[t] += abs(Fraction(w))
        assert (state.active == 1).tolist() == active.tolist()
        for t in range(T):
            kept = Fraction(state.spread[t]) + Fraction(state.spread_low[t])
            self.widest[t] = max(self.widest[t], spread[t])
            assert abs(kept - spread[t]) <= spread[t] * ROUNDING + self.widest[t] * LOST, (t, float(kept - spread[t]))
            kept = Fraction(state.high[t]) + Fraction(state.low[t])
            lost = LOST * Fraction(float(state.size[t]))
            assert abs(kept - total[t]) <= most[t] * ROUNDING + lost, (t, float(kept), float(total[t]))
            assert most[t] <= Fraction(state.size[t]) * (1 + ROUNDING)
        still = active & (state.in_recheck == 0)
        away = np.abs(state.value - state.centre)
        assert (away[still] <= 0.5 * state.width[still]).all()
        assert (state.width >= 0).all() and (state.width[~active] == 0).all()
        assert state.wide.sum() == 0 or self.dusty
        assert state.reports.tolist() == [self.again[g] for g in range(len(case.groups))]
        self.check_counters()

    def check_counters(self) -> None:
        state = self.state
        assert (state.messages[state.values == 0] == 0).all()
        if self.method == "none":
            assert state.messages.tolist() == state.values.tolist() and not state.control.any()
        elif self.method != "adaptive":  # a predictor may also send when there is no new value
            assert (state.messages <= state.values).all()
        used = {i * self.case.features + self.case.values[v][0] for i, v, _, _ in self.case.value_edges}
        idle = np.array([j not in used for j in range(len(state.active))], bool)
        assert not (state.messages[idle].any() or state.control[idle].any())

    def is_on(self, item, needs) -> bool:
        alive, present = self.state.alive[item] == fs.ALIVE, int(self.state.present[item])
        return bool(alive) and bits(needs) & ~present == 0


def one_sum(*weights: float, bound=1.0, percent=False, kind=SUM, **cell) -> Case:
    """One answer over items with these weights, one feature each."""
    items = range(len(weights))
    return Case(
        items=len(weights), features=1, values=[(0, (0,))], flags=[(), (0,)],
        groups=[[Cell(kind, bound, percent, **cell)]], always=[False], targets=[(0, 0)],
        value_edges=[(i, 0, 0, w) for i, w in enumerate(weights)],
        flag_edges=[(i, 0, ROWS_TOTAL, 0, 1.0) for i in items] + [(i, 1, COUNT_TOTAL, 0, 1.0) for i in items],
    )  # fmt: skip


def random_case(rng, items=4, features=2, groups=3, percents=True, scale=1.0) -> Case:
    """Overlapping targets of all kinds, slots with different needs, items in no target and alone in one."""
    needs = [*[(f,) for f in range(features)], *([tuple(range(features))] if features > 1 else [])]
    values, flags = [(f, n) for n in needs for f in n], [(), *needs]
    case = Case(items, features, values, flags, [], [], [], [], [])
    idle = rng.randrange(items) if items > 2 and rng.random() < 0.3 else -1
    for g in range(groups):
        kinds = rng.choices((SUM, AVG, COUNT, MIN, MAX), (5, 2, 1, 2, 2), k=rng.randint(1, 3))
        case.groups.append([random_cell(rng, kind, percents, scale) for kind in kinds])
        case.always.append(rng.random() < 0.25)
        first = len(case.targets)
        case.targets += [(g, c) for c, kind in enumerate(kinds) if kind not in (MIN, MAX)]
        few = rng.choice((0.3, 0.7, 1.0))
        for item in range(items):
            if rng.random() > few or (item == idle and rng.random() < 0.9):
                continue
            joined = rng.randint(1, 3)  # static rows of this group that the item joins
            case.flag_edges.append((item, 0, ROWS_TOTAL, g, float(joined)))
            for c, kind in enumerate(kinds):
                n = rng.choice(needs)
                if kind not in (MIN, MAX):
                    _join(rng, case, item, n, case.targets.index((g, c), first), float(rng.randint(0, joined)), kind)
                    continue
                for _ in range(joined if rng.random() < 0.8 else 0):
                    case.targets.append((g, c))
                    _join(rng, case, item, n, len(case.targets) - 1, 1.0, kind)
    if rng.random() < 0.3:
        case.cost = [rng.choice((0.5, 1.0, 5.0)) for _ in range(items)]
    return case


def random_cell(rng, kind, percents, scale) -> Cell:
    percent = percents and rng.random() < 0.3
    bounds = (0.0, 0.01, 0.1, 0.5, 3.0) if percent else [scale * b for b in (0.0, 0.25, 1.0, 4.0, 4.0, 40.0, 40.0, 1e3)]
    offset, default = rng.choice((0.0, 0.0, 0.0, 1.5, -8.0)), rng.choice((None, None, 0.0, 2.5))
    return Cell(kind, rng.choice(bounds), percent, offset * scale, default)


def _join(rng, case, item, needs, target, count, kind) -> None:
    """An item's part of a target: its count, maybe a constant, and weights of the features it needs."""
    k = case.flags.index(needs)
    if count:
        case.flag_edges.append((item, k, COUNT_TOTAL, target, count))
    if not count or kind == COUNT:
        return
    if rng.random() < 0.3:
        case.flag_edges.append((item, k, SUM_TOTAL, target, rng.choice((-20.0, 0.1, 3.0))))
    for f in needs:
        if rng.random() < 0.85:
            weight = rng.choice((1.0, 1.0, 1.0, -1.0, 2.5, -0.1, 1 / 3, -7.0, 100.0))
            case.value_edges.append((item, case.values.index((f, needs)), target, weight))


WALKS = ("walk", "steps", "bursts", "constant", "alternate", "trend", "back", "zero", "wild", "grid")


def walk(rng, kind, scale, level):
    """An endless trace of one feature."""
    x, drift, k = level * scale, rng.choice((-1, 1)) * rng.uniform(0.05, 0.5) * scale, 0
    swing = rng.choice((0.125, 0.5, 2.0, 20.0)) * scale * rng.choice((1.0, 1.0 + 2.0**-40, 1.0 - 2.0**-40))
    while True:
        yield x
        k += 1
        if kind == "walk":
            x += rng.gauss(0, 0.3) * scale
        elif kind == "steps":
            x += rng.choice((0, 0, 0, 0, 1, -1)) * swing * 2
        elif kind == "bursts":
            x = level * scale + (rng.expovariate(0.02) * scale if k % 37 < 3 else rng.gauss(0, 0.05) * scale)
        elif kind == "alternate":
            x = level * scale + (swing if k % 2 else -swing)
        elif kind == "trend":
            drift = -drift if rng.random() < 0.01 else drift
            x += drift + rng.gauss(0, 0.05) * scale
        elif kind == "back":
            x += 0.5 * (level * scale - x) + rng.gauss(0, 1) * scale
        elif kind == "zero":
            x = rng.choice((1.0, 1.0, 1e-3, 0.0)) * math.cos(k / 5) * level * scale
        elif kind == "wild":
            x = rng.choice((-1, 1)) * 10.0 ** rng.randint(-12, 15) * rng.choice((1.0, rng.random()))
        elif kind == "grid":
            x = rng.randint(-8, 8) * 0.25 * scale


def random_ticks(rng, case, count, scale=1.0, kinds=WALKS, dense=False, churn=True):
    """Rows at each item's own density; items come late, go and come back, features turn NULL and back."""
    level = rng.choice((0.0, 3.0, 100.0, -50.0))
    walks = [[walk(rng, rng.choice(kinds), scale, level) for _ in range(case.features)] for _ in range(case.items)]
    density = [1.0 if dense else rng.choice((0.05, 0.3, 0.7, 1.0, 1.0)) for _ in range(case.items)]
    begin = [rng.choice((0, 0, 0, rng.randrange(count))) if churn else 0 for _ in range(case.items)]
    null = [[False] * case.features for _ in range(case.items)]
    restless = rng.choice((0.0, 0.01, 0.1)) if churn else 0.0
    for tick in range(count):
        rows = []
        for i in range(case.items):
            if tick < begin[i] or (tick > begin[i] and rng.random() > density[i]):
                continue
            if rng.random() < restless:
                rows.append((i, None))
                continue
            for f in range(case.features):
                null[i][f] ^= rng.random() < restless * (3 if null[i][f] else 1)
            rows.append((i, [None if null[i][f] else next(walks[i][f]) for f in range(case.features)]))
        yield rows
