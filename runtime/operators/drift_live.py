"""EmitOnDrift live: the same steps as in replay, a batch of closed ticks at a time, on the driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from deadband.compiler.physical import EmitOnDrift
from deadband.runtime.answers import drift_frame
from deadband.runtime.clock import Clock
from deadband.runtime.context import Context
from deadband.runtime.operators import emit_on_drift as operator
from deadband.runtime.operators.drift_replay import constants_of, drift_figures, weights_runner
from deadband.runtime.sources.batch import batch_of

__all__ = ["DriftLive"]


class DriftLive:
    """One EmitOnDrift plan under way; its state is handed in and changed in place."""

    def __init__(self, context: Context, plan: EmitOnDrift):
        self.plan = plan
        self.stream = plan.shape.stream.name.lower()
        self.streams = [self.stream]
        self._context = context
        self._schema = context.result_schema(plan.group)
        self._run_weights = weights_runner(context, plan)
        self._tables = context.tables.version

    def init(self) -> operator.State:
        return operator.init(self.plan, constants_of(self._context, self.plan))

    def refresh(self, state: operator.State) -> None:
        """A static table was refreshed: new weights from this batch on."""
        if self._tables != self._context.tables.version:
            self._tables = self._context.tables.version
            operator.rewired(self.plan, state, self._run_weights)

    def step(
        self, state: operator.State, rows: dict[str, pa.Table], times: NDArray, clock: Clock
    ) -> dict[str, pd.DataFrame]:
        """The changes per query that these closed ticks bring."""
        batch = batch_of(rows[self.stream], self.plan.shape.stream.key, len(self.plan.features))
        _, changes = operator.step(self.plan, state, batch, times, clock, self._run_weights)
        if not len(changes.group):
            return {}
        query = state.groups.query[changes.group]
        found = {}
        for index in np.unique(query):
            mine = np.flatnonzero(query == index)
            order = mine[np.lexsort((changes.group[mine], changes.time[mine]))]
            member = self.plan.group.queries[index]
            found[member.name] = drift_frame(self.plan, member, changes, state.groups, order, clock, self._schema)
        return found

    def figures(self, state: operator.State) -> dict[str, dict[str, Any]]:
        counted = operator.counters(state)
        return {q.name: drift_figures(self.plan, counted, i) for i, q in enumerate(self.plan.group.queries)}
