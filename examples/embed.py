"""Deadband inside a Python program: compile without Spark, then replay a pandas history and look at the answers."""

import numpy as np
import pandas as pd

import deadband

QUOTES = "CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;"
PORTFOLIO = """
CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  GROUP BY h.account
  COHERENCY value WITHIN 80;
"""


def history(ticks: int = 1000, symbols: int = 25, seed: int = 7) -> pd.DataFrame:
    """Random walks, one row per symbol and second."""
    steps = np.random.default_rng(seed).normal(0, 0.05, (ticks, symbols)).cumsum(axis=0)
    at = pd.date_range("2026-01-05 14:30", periods=ticks, freq="s")
    wide = pd.DataFrame(100 + steps, index=at, columns=[f"S{i:02d}" for i in range(symbols)])
    return wide.rename_axis("at").reset_index().melt("at", var_name="symbol", value_name="price")


def main(spark=None) -> None:
    # Compiling needs neither Spark nor Java; tables that the text does not declare are given by their columns.
    columns = {"holdings": {"account": "string", "symbol": "string", "shares": "int"}}
    (plan,) = deadband.compile(QUOTES + PORTFOLIO, tables=columns)
    print(plan.guarantee)

    held = np.random.default_rng(1).integers(0, 200, (200, 25))
    rows = [(f"A{a:03d}", f"S{s:02d}", int(n)) for (a, s), n in np.ndenumerate(held) if n > 150]
    with deadband.connect(spark) as db:  # a local Spark of its own, unless one is given
        db.register("holdings", pd.DataFrame(rows, columns=["account", "symbol", "shares"]))
        db.sql(QUOTES + PORTFOLIO)
        run = db.replay({"quotes": history()})

        print(run.answers("portfolio").tail(3))  # ts, diff, account, value, and the band that holds the truth
        figures = run.report()["portfolio"]
        print(f"{figures['messages']:,} messages for {figures['baseline']:,} changes")
        print(f"largest error {figures['max_error']:.2f}")


if __name__ == "__main__":
    main()
