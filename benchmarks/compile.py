"""Queries a second through the compiler: registered one by one (they fold), all different, and as groups of one query."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import deadband
from benchmarks.table import Table

HEAD = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE);
"""
ALIKE = """CREATE CONTINUOUS QUERY q{i} AS
  SELECT SUM(h.shares * q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  WHERE h.account = 'A{i}' COHERENCY value WITHIN {i};
"""
# Another output name makes another shape: nothing folds, every query is bound in full.
DIFFERENT = ALIKE.replace("AS value", "AS v{i}").replace("COHERENCY value", "COHERENCY v{i}")


def run(quick: bool = False, data: Path | None = None) -> dict[str, Any]:
    """Compile and fold 1 to 10⁵ queries."""
    deadband.compile(HEAD + ALIKE.format(i=0))  # the grammar is built once a process
    sizes = (1, 10, 100, 1_000, 10_000) if quick else (1, 10, 100, 1_000, 10_000, 100_000)
    table = Table("compile: queries that differ only in literals, and queries that differ in shape")
    for size in sizes:
        alike, groups = _timed(HEAD + "".join(ALIKE.format(i=i) for i in range(size)))
        assert groups == 1, f"{size} queries folded into {groups} groups"
        row = {"queries": size, "alike_s": alike, "alike_per_s": size / alike, "groups": groups}
        if size <= 10_000:
            different, groups = _timed(HEAD + "".join(DIFFERENT.format(i=i) for i in range(size)))
            assert groups == size
            row |= {"different_s": different, "different_per_s": size / different}
        table.add(**row)
    return {"compile": table.rows}


def _timed(text: str) -> tuple[float, int]:
    """Seconds to compile, and how many groups the plans share."""
    started = time.perf_counter()
    plans = deadband.compile(text)
    seconds = time.perf_counter() - started
    return seconds, len({id(p.choice) for p in plans})
