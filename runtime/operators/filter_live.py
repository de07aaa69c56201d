"""AdaptiveFilter live: the coordinator on the driver works through the rounds of a batch that its sites have run.

The sites run all ticks of a batch with the width changes they were given. When the coordinator comes to a round in
which it changes a width that they did not know of, they run the batch again with it, from the state before the batch: a
round trip. So answers are those of a replay, and there are as many round trips as rounds with changes, most often none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deadband.compiler.planning.cost_curves import Curves
from deadband.runtime.kernels import adaptive_filter as kernel
from deadband.runtime.kernels import filter_state as fs
from deadband.runtime.kernels.filter_live import ROUND, Events, Sent, take_messages
from deadband.runtime.operators import adaptive_filter as operator
from deadband.runtime.operators.filter_planning import plan

__all__ = ["Coordinated", "coordinate", "no_events"]

RunSites = Callable[[Events, int], Sent]  # width changes, and the first round that is not known yet


@dataclass(frozen=True)
class Coordinated:
    """A batch after its last round trip: reports, width changes that wait for the next batch, trips."""

    emitted: fs.Emitted
    later: Events
    trips: int


def no_events() -> Events:
    none = np.zeros(0, np.int64)
    return Events(none, none, none, np.zeros(0))


def coordinate(
    state: operator.State, ticks: int, waiting: Events, run_sites: RunSites, history: Curves | None
) -> Coordinated:
    """Runs the ticks of a batch; `waiting` are width changes that sites have not heard of yet. Changes the state."""
    before = _copied(state.totals)
    events, trips, since = waiting, 0, 0
    sent: Sent | None = None
    while True:
        trips += 1
        sent = _joined(sent, run_sites(events, since), since)
        batch = _Batch(state, ticks, events, sent, history)
        if batch.run():
            return Coordinated(kernel.emitted(batch.out), _shifted(batch.made, ticks), trips)
        first = len(events.tick)
        events = batch.made
        since = int(events.tick[first] * ROUND + events.phase[first])
        state.totals = _copied(before)


def _joined(known: Sent | None, new: Sent, since: int) -> Sent:
    """What was sent before a round, as it is known, and from then on as it is now."""
    if known is None:
        return new
    before = known.tick * ROUND + known.phase < since
    columns = [np.concatenate((a[before], b)) for a, b in zip(known[:-1], new[:-1], strict=True)]
    return Sent._make([*columns, new.counts])


class _NotToldYet(Exception):
    """The sites have to be asked for their counts first."""


class _Batch:
    """One pass of the coordinator over what the sites have sent; stops at a change that they did not know of."""

    def __init__(self, state: operator.State, ticks: int, given: Events, sent: Sent, history: Curves | None):
        self.wiring, self.totals, self.ticks, self.history = state.wiring, state.totals, ticks, history
        self.method = operator.METHODS[operator.method_of(state)]
        self.given, self.sent = given, sent
        self.made = Events(*(column[given.tick * ROUND + given.phase == 0] for column in given))
        self.out = kernel.no_reports()
        self.rounds = sent.tick * ROUND + sent.phase
        self.counts = {(int(row[0]), int(row[1])): row[2:] for row in sent.counts}

    def run(self) -> bool:
        """True when the sites knew of every change in time."""
        wiring, totals = self.wiring, self.totals
        percents = bool(wiring.cell_percent.any())
        for tick in range(self.ticks):
            self._take(tick, 0)
            width = totals.width.copy()
            kernel.members(wiring, totals, self.method)
            if not self._changed(width, tick, 1):
                return False
            phase, attempt = 2, 0
            while True:
                width = totals.width.copy()
                if not kernel.narrow(wiring, totals, attempt):
                    break
                if not self._changed(width, tick, phase):
                    return False
                phase, attempt = phase + 1, attempt + 1
            self.out = kernel.report(wiring, totals, tick, *self.out)
            width = totals.width.copy()
            if kernel.after(wiring, totals, self.method, percents) and not self._plan(tick):
                return False
            self._note(np.flatnonzero(totals.width != width), tick + 1, 0)
            if tick + 1 < self.ticks and len(self.made.tick) > len(self.given.tick):
                return False
        return True

    def _plan(self, tick: int) -> bool:
        """Plans widths from the counts of the shadows; false while the sites have not been asked for them."""

        def tell(members: NDArray) -> NDArray:
            self._note(members, tick + 1, 0, np.full(len(members), np.nan))
            if len(self.made.tick) > len(self.given.tick):
                raise _NotToldYet
            return np.array([self.counts[tick + 1, int(j)] for j in members])

        try:
            plan(self.wiring, self.totals, self.history, tell)
        except _NotToldYet:
            return False
        return True

    def _changed(self, width: NDArray, tick: int, phase: int) -> bool:
        """Takes what sites answer to the widths that changed in a round; false if they did not know of them."""
        self._note(np.flatnonzero(self.totals.width != width), tick, phase)
        if len(self.made.tick) > len(self.given.tick):
            return False
        self._take(tick, phase)
        return True

    def _note(self, filters: NDArray, tick: int, phase: int, widths: NDArray | None = None) -> None:
        here = np.full(len(filters), tick), np.full(len(filters), phase)
        new = self.totals.width[filters] if widths is None else widths
        self.made = Events(*(np.concatenate(c) for c in zip(self.made, (*here, filters, new), strict=True)))

    def _take(self, tick: int, phase: int) -> None:
        sent = self.sent
        here = tick * ROUND + phase
        mine = slice(*np.searchsorted(self.rounds, [here, here + 1]))
        code, value, step, decay, present, alive, features = (c[mine] for c in sent[2:9])
        take_messages(
            self.wiring, self.totals, code, value, step, decay, present, alive, features, phase == 0
        )  # fmt: skip
        kernel.settle(self.totals)


def _copied(totals: fs.State) -> fs.State:
    return fs.State(*(array.copy() for array in totals))


def _shifted(made: Events, ticks: int) -> Events:
    """The changes after the last tick, as the first of the next batch."""
    later = made.tick >= ticks
    return Events(made.tick[later] - ticks, made.phase[later], made.filter[later], made.width[later])
