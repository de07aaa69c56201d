"""EmitOnDrift against plain recomputation: Spark's and DuckDB's one query over all ticks, the best plain form.

All three start from the same parquet files in a warm session and end with their answers: ours as a pandas frame of
reports, the plain ones with every group's value at every tick (Spark into its noop sink, DuckDB into a count and a
maximum, so that neither pays for keeping 10⁷ rows). Ours is verified: at sampled ticks every group's answer in force
must be within the bound of DuckDB's value.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import deadband
from benchmarks.table import Table

TICKS, ITEMS, HELD = 3_000, 25, 8
BOUND = 80.0

DECLARE = """
CREATE STREAM quotes (symbol STRING, price DOUBLE, tick BIGINT) KEY (symbol) TIMESTAMP BY tick
  USING parquet OPTIONS (path '{folder}/quotes.parquet');
CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  GROUP BY h.account COHERENCY value WITHIN {bound};
"""
PLAIN = """SELECT q.tick, h.account, SUM(h.shares * q.price) AS value
  FROM {quotes} q JOIN {holdings} h ON q.symbol = h.symbol GROUP BY q.tick, h.account"""
# Where not every item has a row in every tick, plain SQL first fills in the price in force.
FILLED = """(SELECT t.tick, s.symbol, {last} OVER (PARTITION BY s.symbol ORDER BY t.tick) AS price
  FROM (SELECT DISTINCT tick FROM {raw}) t CROSS JOIN (SELECT DISTINCT symbol FROM {raw}) s
  LEFT JOIN {raw} q ON q.tick = t.tick AND q.symbol = s.symbol)"""


def run(quick: bool = False, data: Path | None = None) -> dict[str, Any]:
    """Cost over the number of groups, then over the number of items that change in a tick."""
    ticks = 500 if quick else TICKS
    groups = (10, 100, 1_000, 10_000) if quick else (10, 100, 1_000, 10_000, 100_000)
    repeats = 1 if quick else 3
    with deadband.connect(**{"spark.driver.memory": "8g"}) as db:
        _warm_up(db)
        found = {
            "groups": _over_groups(db, groups, ticks, repeats),
            "changed": _over_changed(db, 300 if quick else 1_000, repeats),
        }
        if data is not None:
            found["real"] = _real(db, data, 1_000 if quick else 10_000)
        return found


def _over_groups(db: Any, sizes: tuple[int, ...], ticks: int, repeats: int) -> list[dict]:
    table = Table(f"drift: {ITEMS} items, {ticks:,} ticks, all items change in every tick, {HELD} items a group")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), _walk(ticks, ITEMS), _holdings(size, ITEMS, HELD))
            # The plain forms at 10⁵ groups make 3·10⁸ rows: one run each is long enough.
            times = 1 if size >= 100_000 else repeats
            table.add(**_compare(db, Path(folder), size, ticks, times, filled=False))
    return table.rows


def _over_changed(db: Any, ticks: int, repeats: int) -> list[dict]:
    items, size = 1_000, 10_000
    table = Table(f"drift: {items:,} items, {size:,} groups, {ticks:,} ticks, by the items that change in a tick")
    for changed in (1, 10, 100, 1_000):
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), _walk(ticks, items, changed), _holdings(size, items, HELD))
            row = _compare(db, Path(folder), size, ticks, repeats, filled=True)
            row = {"changed": changed, "us_a_tick": row["kernel_s"] / ticks * 1e6, **row}
            table.add(**row)
    return table.rows


def _real(db: Any, data: Path, size: int) -> list[dict]:
    trace = pd.read_parquet(data / "crypto_5min_2024" / "data.parquet", columns=["tick", "item", "value"])
    items = sorted(trace["item"].unique())[:25]
    trace = trace[trace["item"].isin(items) & (trace["tick"] < TICKS)]
    first = trace.groupby("item")["value"].transform("first")
    quotes = pd.DataFrame({"symbol": trace["item"], "price": 100 * trace["value"] / first, "tick": trace["tick"]})
    holdings = _holdings(size, len(items), HELD)
    holdings["symbol"] = holdings["symbol"].map(dict(zip([f"S{i}" for i in range(len(items))], items, strict=True)))
    table = Table(f"drift: 25 crypto pairs at 5 minutes, {TICKS:,} ticks, {size:,} groups")
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), quotes.sort_values(["tick", "symbol"]), holdings)
        table.add(**_compare(db, Path(folder), size, TICKS, 1, filled=False))
    return table.rows


# ---------------------------------------------------------------- one comparison


def _compare(db: Any, folder: Path, size: int, ticks: int, repeats: int, filled: bool) -> dict[str, Any]:
    quotes, holdings = f"{folder}/quotes.parquet", f"{folder}/holdings.parquet"
    db.sql("DROP CONTINUOUS QUERY IF EXISTS portfolio; DROP STREAM IF EXISTS quotes")
    db.register("holdings", db.spark.read.parquet(holdings))
    db.sql(DECLARE.format(folder=folder, bound=BOUND))

    def ours() -> tuple[pd.DataFrame, dict, float]:
        made = db.replay()
        return made.answers("portfolio"), made.report()["portfolio"], made.seconds("portfolio")["kernel"]

    def spark() -> None:
        raw = f"parquet.`{quotes}`"
        source = FILLED.format(raw=raw, last="LAST_VALUE(q.price, true)") if filled else raw
        text = PLAIN.format(quotes=source, holdings=f"parquet.`{holdings}`")
        db.spark.sql(text).write.format("noop").mode("overwrite").save()

    def duck() -> None:
        raw = f"'{quotes}'"
        source = FILLED.format(raw=raw, last="LAST_VALUE(q.price IGNORE NULLS)") if filled else raw
        text = PLAIN.format(quotes=source, holdings=f"'{holdings}'")
        duckdb.sql(f"SELECT COUNT(*), MAX(value) FROM ({text})").fetchall()

    ours()  # the snapshot of holdings is taken when the query is created, not at every replay
    seconds, (answers, report, kernel) = _median(ours, repeats)
    spark_seconds, _ = _median(spark, repeats)
    duck_seconds, _ = _median(duck, repeats)
    _verify(answers, folder, filled)
    rows = report["updates"]
    return {
        "groups": size,
        "ours_s": seconds,
        "spark_s": spark_seconds,
        "duckdb_s": duck_seconds,
        "vs_spark": spark_seconds / seconds,
        "vs_duckdb": duck_seconds / seconds,
        "updates_per_s": rows / seconds,
        "rows_out": len(answers),
        "plain_rows": size * ticks,
        "max_error": report["max_error"],
        "kernel_s": kernel,
    }


def _verify(answers: pd.DataFrame, folder: Path, filled: bool, samples: int = 20) -> None:
    """At sampled ticks, every group's answer in force is within the bound of the exact one."""
    raw = f"'{folder}/quotes.parquet'"
    times = duckdb.sql(f"SELECT DISTINCT tick FROM {raw} ORDER BY tick").df()["tick"].to_numpy()
    for at in times[np.linspace(0, len(times) - 1, samples).astype(int)]:
        truth = duckdb.sql(
            f"""SELECT h.account, SUM(h.shares * q.price) AS truth FROM
            (SELECT symbol, ARG_MAX(price, tick) AS price FROM {raw} WHERE tick <= {at} GROUP BY symbol) q
            JOIN '{folder}/holdings.parquet' h ON q.symbol = h.symbol GROUP BY h.account"""
        ).df()
        force = answers[answers["ts"] <= at].groupby("account")["value"].last()
        both = truth.set_index("account").join(force, how="outer")
        assert not both.isna().any().any(), "a group is missing"
        worst = (both["truth"] - both["value"]).abs().max()
        assert worst <= BOUND * (1 + 1e-12), f"off by {worst} at {at}"


def _median(work: Any, repeats: int) -> tuple[float, Any]:
    seconds, result = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), result


# ---------------------------------------------------------------- data


def _walk(ticks: int, items: int, changed: int | None = None, seed: int = 7) -> pd.DataFrame:
    """Correlated geometric walks; with `changed`, only so many items have a row in a tick after the first."""
    rng = np.random.default_rng(seed)
    steps = 0.0005 * rng.normal(size=(ticks, 1)) + 0.001 * rng.normal(size=(ticks, items))
    prices = 100 * np.exp(np.cumsum(steps, axis=0))
    if changed is None or changed >= items:
        at, item = np.repeat(np.arange(ticks), items), np.tile(np.arange(items), ticks)
    else:
        later = [rng.choice(items, changed, replace=False) for _ in range(ticks - 1)]
        at = np.concatenate([np.zeros(items, int), np.repeat(np.arange(1, ticks), changed)])
        item = np.concatenate([np.arange(items), *later])
    return pd.DataFrame({"symbol": [f"S{i}" for i in item], "price": prices[at, item], "tick": at})


def _holdings(accounts: int, items: int, held: int, seed: int = 11) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    chosen = rng.random((accounts, items)).argpartition(held, axis=1)[:, :held]
    return pd.DataFrame(
        {
            "account": np.repeat([f"A{i}" for i in range(accounts)], held),
            "symbol": [f"S{i}" for i in chosen.ravel()],
            "shares": rng.integers(1, 50, accounts * held).astype(float),
        }
    )


def _write(folder: Path, quotes: pd.DataFrame, holdings: pd.DataFrame) -> None:
    quotes.to_parquet(folder / "quotes.parquet")
    holdings.to_parquet(folder / "holdings.parquet")


def _warm_up(db: Any) -> None:
    """JVM, code generation and numba, once, for everybody."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), _walk(50, ITEMS), _holdings(20, ITEMS, HELD))
        _compare(db, Path(folder), 20, 50, 2, filled=False)
