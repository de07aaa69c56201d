"""Traces and queries for the filters benchmark: real ones from a folder, generated stand-ins of the same kinds without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from benchmarks.filter_runs import Queries

__all__ = ["bursts", "overlapping", "real", "single", "stand_ins", "walk_queries", "walks"]

SOURCES = 200
# query sets a packet can count for (login, incoming, syn, dns, external traffic), and how heavy that traffic is
LIVE = {
    (1,): 1.0, (4,): 1.0, (1, 4): 1.0, (0, 1, 4): 0.01, (1, 2): 0.01, (1, 2, 4): 0.01, (3,): 0.01, (3, 4): 0.01,
    (0, 1, 2, 4): 0.01,
}  # fmt: skip


# ---------------------------------------------------------------- traces


def walks(ticks: int, seed: int, items: int = 10) -> tuple[NDArray, NDArray]:
    """Random walks of random step sizes, and the variances of their steps."""
    rng = np.random.default_rng(seed)
    deviation = rng.uniform(0.1, 10, items)
    return np.cumsum(rng.normal(0, 1, (ticks, items)) * deviation, axis=0), deviation**2


def real(data: Path, ticks: int | None) -> dict[str, NDArray]:
    """Up to 200 sources of each of four kinds, rates and road speeds as they are, prices too."""
    found = {}
    for name, folder in (
        ("network", "bitbrains_rnd_net"),
        ("crypto", "crypto_5min_2024"),
        ("road", "la_loop_speed_2012"),
        ("stocks", "sp500_daily_2013_2018"),
    ):
        long = pd.read_parquet(data / folder / "data.parquet", columns=["tick", "item", "value"])
        wide = long.pivot(index="tick", columns="item", values="value")
        wide = wide.dropna(axis=1) if name == "stocks" else wide.ffill().bfill().fillna(0.0)
        trace = wide.to_numpy(float)
        moving = np.flatnonzero(trace.std(axis=0) > 0)
        if len(moving) > SOURCES:
            moving = np.sort(np.random.default_rng(0).choice(moving, SOURCES, replace=False))
        trace = trace[:, moving]
        if name == "crypto":  # pairs from 6e-6 to 7e4: in percent of the first price
            trace = 100 * trace / trace[0]
        found[name] = np.ascontiguousarray(trace[:ticks])
    return found


def stand_ins(ticks: int, items: int = 60, seed: int = 3) -> dict[str, NDArray]:
    """Bursts around levels, correlated prices, daily seasons with noise, independent prices."""
    rng = np.random.default_rng(seed)
    t = np.arange(ticks)[:, None]
    burst = np.zeros((ticks, items))
    for i in range(items):
        at, size = 0, np.exp(rng.normal(3, 1.5))
        while at < ticks:
            length = 1 + int(rng.pareto(1.5) * 3)
            burst[at : at + length, i] = size * np.exp(rng.normal(0, 1))
            at += length + int(rng.pareto(1.2) * rng.uniform(5, 60)) + 1
    common = rng.normal(0, 1, (ticks, 1))
    crypto = 100 * np.exp(np.cumsum(0.002 * (common + rng.normal(0, rng.uniform(0.5, 2, items), (ticks, items))), 0))
    noise = np.zeros((ticks, items))
    for k in range(1, ticks):
        noise[k] = 0.8 * noise[k - 1] + rng.normal(0, 1, items)
    season = 60 - 15 * np.maximum(np.sin(2 * np.pi * (t / 288 + rng.uniform(0, 0.2, items))), 0) ** 4
    road = season + noise * rng.uniform(0.3, 3, items)
    stocks = rng.uniform(10, 300, items) * np.exp(
        np.cumsum(rng.normal(0, rng.uniform(0.005, 0.03, items), (ticks, items)), 0)
    )
    return {"network": burst, "crypto": crypto, "road": road, "stocks": stocks}


def bursts(ticks: int, silent: bool, hosts: int = 10, window: int = 60, seed: int = 0) -> tuple[NDArray, csr_matrix]:
    """One-minute moving averages of bursty packet rates at 1 s: an item per host and set of queries it counts for.

    AVG over hosts of five kinds of traffic; silent: also the sets of queries that no packet counts for.
    """
    rng = np.random.default_rng(seed)
    columns, members = [], []
    for _ in range(hosts):
        host = np.exp(rng.normal())
        for subset in range(1, 32):
            queries = tuple(q for q in range(5) if subset >> q & 1)
            rate = np.zeros(ticks + window)
            if queries in LIVE:
                _burst(rng, rate, 90.0 * host * LIVE[queries], LIVE[queries] < 1)
            total = np.cumsum(rng.poisson(rate))
            average = (total[window:] - total[:-window])[:ticks] / window
            if silent or average.any():
                columns.append(average)
                members.append(queries)
    weight = np.zeros((5, len(columns)))
    for i, queries in enumerate(members):
        weight[queries, i] = 1 / hosts
    return np.ascontiguousarray(np.column_stack(columns)), csr_matrix(weight)


def _burst(rng: np.random.Generator, rate: NDArray, level: float, rare: bool) -> None:
    level *= np.exp(rng.normal())
    on, off = rng.uniform(5, 40), rng.uniform(3000, 30000) if rare else rng.uniform(20, 200)
    at = int(rng.uniform(0, off))
    while at < len(rate):
        length = int((rng.pareto(1.5) + 0.3) * on / 2) + 1
        rate[at : at + length] = level * np.exp(rng.normal(0, 0.7)) * (3 if rare else 1)
        at += length + int((rng.pareto(1.5) + 0.3) * off / 2) + 1


# ---------------------------------------------------------------- queries


def walk_queries(queries: int, each: float, seed: int, items: int = 10) -> Queries:
    """One query over all items, or several of 2 to 5 items; each: width a member would get alone."""
    if queries == 1:
        return Queries(csr_matrix(np.ones((1, items))), np.array([each * items]))
    rng = np.random.default_rng(seed + 9)
    weight = np.zeros((queries, items))
    for q in range(queries):
        weight[q, rng.choice(items, rng.integers(2, 6), replace=False)] = 1
    weight[0, weight.sum(axis=0) == 0] = 1
    return Queries(csr_matrix(weight), each * weight.sum(axis=1) * rng.uniform(0.3, 2, queries))


def single(trace: NDArray, share: float) -> Queries:
    """One SUM over all items; the bound as a share of the sum of their deviations."""
    return Queries(csr_matrix(np.ones((1, trace.shape[1]))), np.array([share * trace.std(axis=0).sum()]))


def overlapping(trace: NDArray, share: float, queries: int = 10, seed: int = 1) -> Queries:
    """SUMs over a tenth to a half of the items each, with bounds of very different sizes."""
    rng, items = np.random.default_rng(seed), trace.shape[1]
    weight = np.zeros((queries, items))
    for q in range(queries):
        weight[q, rng.choice(items, rng.integers(max(2, items // 10), max(3, items // 2)), replace=False)] = 1
    weight[0, weight.sum(axis=0) == 0] = 1
    return Queries(csr_matrix(weight), (weight @ trace.std(axis=0)) * share * np.exp(rng.normal(0, 0.8, queries)))
