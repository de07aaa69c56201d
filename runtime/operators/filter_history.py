"""Cost curves of filters from analysed statistics, so that widths are good from the first tick on."""

from __future__ import annotations

import numpy as np

from deadband.compiler.planning.cost_curves import QUARTERS, Curves, History
from deadband.runtime.operators.filter_wiring import Book
from deadband.runtime.sources.item_statistics import ItemStatistics, feature_text

__all__ = ["history_of"]


def history_of(book: Book, statistics: ItemStatistics | None) -> Curves | None:
    """The curves of all filters of a book, j = item · F + feature; None where none of them was analysed.

    Keys and features that were not analysed are taken to be like the others: medians, of the feature if it is known.
    """
    if statistics is None or not book.number:
        return None
    row = np.full((len(book.number), len(book.features)), -1)
    for f, feature in enumerate(book.features):
        known = statistics.rows.get(feature_text(feature))
        if known:
            row[:, f] = [known.get(key, -1) for key in book.number]  # a book numbers its keys as they come
    if (row < 0).all():
        return None
    width, rate = statistics.column("widths"), statistics.column("rates")
    update_rate = statistics.column("changes") / np.maximum(statistics.column("ticks"), 1)
    quarters = statistics.column("quarters").reshape(len(rate), QUARTERS, -1)
    at = row.reshape(-1)
    ticks = int(statistics.column("ticks").max())
    found = History(width[at], rate[at], update_rate[at], quarters[at], ticks)
    for f in range(len(book.features)):
        unknown = row[:, f] < 0
        if not unknown.any():
            continue
        like = row[~unknown, f] if not unknown.all() else row[row >= 0]
        at = np.flatnonzero(unknown) * len(book.features) + f
        found.width[at], found.rate[at] = np.median(width[like], axis=0), np.median(rate[like], axis=0)
        found.update_rate[at] = np.median(update_rate[like])
        found.quarters[at] = np.median(quarters[like], axis=0)
    return found
