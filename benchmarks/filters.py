"""Adaptive filters: messages between sites and coordinator, on walks, real traces and bursts; planning time; updates/s.

Everything is counted by the kernel that runs PRECISION queries. Messages are data and control together, after the first
value of each item, unless a column says otherwise. At every tick of every run every answer must hold the truth and be
no wider than its bound; a benchmark with a wrong answer fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import filter_traces as traces
from benchmarks.filter_runs import Queries, Sent, analysed, counted, hindsight, offline, static
from benchmarks.filter_speed import planning, updates
from benchmarks.table import Table
from deadband.compiler.planning.adaptive_filter import random_walk

SHARES = (0.05, 0.2, 0.5, 1.0, 2.0)
NEVER_WORSE, WITH_HISTORY, ON_WALKS, ON_BURSTS, UPDATES = 1.02, 1.05, 1.05, 0.30, 50.0  # the aims


def run(quick: bool = False, data: Path | None = None, file: Path | None = None) -> dict[str, Any]:
    """All parts; what is known so far is written after each."""
    _warm_up()
    found: dict[str, Any] = {"traces": "generated" if data is None else "real"}
    parts = {
        "walks": lambda: _walks(4_000 if quick else 20_000, (0,) if quick else (0, 1)),
        "real": lambda: _real(data, quick),
        "bursts": lambda: _bursts(3_000 if quick else 20_000),
        "planning": lambda: planning((1_000,) if quick else (1_000, 10_000, 100_000)),
        "updates": lambda: updates(2_000_000 if quick else 20_000_000),
    }
    for name, part in parts.items():
        found[name] = part()
        if file is not None:
            file.write_text(json.dumps({"figures": found, "quick": quick}, indent=1) + "\n")
    found["aims"] = _aims(found)
    return found


def _warm_up() -> None:
    """Kernels are compiled, or loaded, before anything is timed."""
    trace, _ = traces.walks(200, 0)
    for method in ("uniform", "adaptive"):
        counted(trace, traces.walk_queries(5, 20.0, 0), method)


def _holds(*runs: Sent) -> None:
    wrong = sum(r.wrong for r in runs)
    assert wrong == 0, f"{wrong} answers do not hold"


# ---------------------------------------------------------------- walks


def _walks(ticks: int, seeds: tuple[int, ...]) -> list[dict]:
    table = Table(
        f"filters: 10 random walks, {ticks:,} ticks; uniform in messages, all else as a share of it. "
        "ideal: reference with growth messages not charged. best: optimised static widths. width: per member"
    )
    for seed in seeds:
        trace, variance = traces.walks(ticks, seed)
        for count in (1, 5):
            for each in (20.0, 60.0, 200.0):
                queries = traces.walk_queries(count, each, seed)
                equal, reference, ours = (counted(trace, queries, m) for m in ("uniform", "reference", "adaptive"))
                widths = random_walk(variance, np.ones(10), queries.load, queries.bound)
                model = static(trace, queries, widths)
                known = static(trace, queries, hindsight(trace, queries))
                _holds(equal, reference, ours, model, known)
                u = equal.total
                table.add(
                    seed=seed, queries=count, width=each, uniform=u, reference=reference.total / u,
                    ideal=reference.data / u, best=model.total / u, hindsight=known.total / u, ours=ours.total / u,
                    control=ours.control / u, ours_by_best=ours.total / model.total,
                    settled=_late(trace, queries, ours, None) / _late(trace, queries, model, widths),
                    ours_by_min=ours.total / min(u, reference.total), ours_data=ours.data / min(u, reference.total),
                    offline=offline(trace, queries) / u,
                )  # fmt: skip
    return table.rows


def _late(trace: NDArray, queries: Queries, whole: Sent, widths: NDArray | None) -> int:
    """What a run, ours or one with static widths, sent in its second half, when the walk had been seen long enough."""
    first = trace[: len(trace) // 2]
    half = counted(first, queries, "adaptive") if widths is None else static(first, queries, widths)
    return max(whole.total - half.total, 1)


# ---------------------------------------------------------------- traces


def _real(data: Path | None, quick: bool) -> list[dict]:
    known = traces.stand_ins(1_500 if quick else 6_000) if data is None else traces.real(data, 1_500 if quick else None)
    table = Table(
        f"filters: {'generated stand-ins' if data is None else 'real traces'}; uniform in messages, all else as a share "
        "of it. The columns from history on: second half only, the first was analysed"
    )
    for name, trace in known.items():
        for kind, make in (("single", traces.single), ("overlap", traces.overlapping)):
            for share in (0.05, 0.5) if quick else SHARES:
                table.add(trace=name, queries=kind, bound=share, **_on_trace(trace, make(trace, share)))
    return table.rows


def _on_trace(trace: NDArray, queries: Queries) -> dict[str, Any]:
    equal, reference, ours = (counted(trace, queries, m) for m in ("uniform", "reference", "adaptive"))
    none, best = counted(trace, queries, "none"), static(trace, queries, hindsight(trace, queries))
    half = len(trace) // 2
    late = trace[half:]
    late_equal, late_best = counted(late, queries, "uniform"), static(late, queries, hindsight(late, queries))
    history = counted(late, queries, "adaptive", analysed(trace[:half]))
    _holds(equal, reference, ours, none, best, late_equal, late_best, history)
    u, least, u2 = max(equal.total, 1), max(min(equal.total, reference.total), 1), max(late_equal.total, 1)
    return {
        "uniform": equal.total, "reference": reference.total / u, "hindsight": best.total / u, "ours": ours.total / u,
        "control": ours.control / u, "ours_by_min": ours.total / least, "ours_data": ours.data / least,
        "no_filter": none.total / u, "offline": offline(trace, queries) / u, "history": history.total / u2,
        "best_late": late_best.total / u2, "by_best": history.total / max(late_best.total, 1),
    }  # fmt: skip


def _bursts(ticks: int) -> list[dict]:
    table = Table(
        f"filters: one-minute moving averages of bursty rates at 1 s, 10 hosts, 5 overlapping AVGs, {ticks:,} ticks; "
        "bounds: delta for two queries, delta/100 for three; uniform in messages a second"
    )
    for silent in (False, True):
        trace, weight = traces.bursts(ticks, silent)
        for delta in (1.0, 4.0, 10.0, 30.0, 100.0):
            queries = Queries(weight, delta * np.array([0.01, 1, 0.01, 0.01, 1]))
            equal, reference, ours = (counted(trace, queries, m) for m in ("uniform", "reference", "adaptive"))
            best = static(trace, queries, hindsight(trace, queries))
            _holds(equal, reference, ours, best)
            u, least = max(equal.total, 1), max(min(equal.total, reference.total), 1)
            table.add(
                groups="all 31" if silent else "occurring", items=trace.shape[1], delta=delta, uniform=equal.total / ticks,
                reference=reference.total / u, hindsight=best.total / u, ours=ours.total / u, control=ours.control / u,
                ours_by_min=ours.total / least, ours_data=ours.data / least, offline=offline(trace, queries) / u,
            )  # fmt: skip
    return table.rows


# ---------------------------------------------------------------- aims


def _aims(found: dict[str, Any]) -> list[dict]:
    """What was asked for, what came out, and whether it is met; the worst and the mean."""
    table = Table("filters: aims")
    everywhere = [r for part in ("walks", "real", "bursts") for r in found[part]]

    def add(what: str, aim: float, figures: list[float], most: bool = True, of: str = "worst") -> None:
        values = np.array(figures)
        met = values <= aim if most else values >= aim
        judged = float(values.mean()) if of == "mean" else float(values.max() if most else values.min())
        holds = judged <= aim if most else judged >= aim
        table.add(
            aim=what, wanted=aim, judged_by=of, figure=judged, mean=float(values.mean()), met=bool(holds),
            rows_met=int(met.sum()), rows=len(values),
        )  # fmt: skip

    add("data by min(uniform, reference)", NEVER_WORSE, [r["ours_data"] for r in everywhere])
    add("all by min(uniform, reference)", NEVER_WORSE, [r["ours_by_min"] for r in everywhere])
    add("with history by hindsight", WITH_HISTORY, [r["by_best"] for r in found["real"]], of="mean")
    add("with history by hindsight", WITH_HISTORY, [r["by_best"] for r in found["real"]])
    add("with history by uniform", 0.84, [r["history"] for r in found["real"]], of="mean")
    add("walks by optimised widths", ON_WALKS, [r["ours_by_best"] for r in found["walks"]])
    add("walks, second half", ON_WALKS, [r["settled"] for r in found["walks"]])
    for groups in ("occurring", "all 31"):
        mine = [r["ours"] for r in found["bursts"] if r["groups"] == groups]
        add(f"bursts by uniform, {groups}", ON_BURSTS, mine)
    plain = [r["millions"] for r in found["updates"] if r["filters"] == "uniform" and r["sent"] == 0]
    add("million updates/s, uniform, none sent", UPDATES, plain, most=False)
    return table.rows
