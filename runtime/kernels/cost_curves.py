"""What a filter of another width, or one with a predictor, would have sent: counted by shadow filters.

Law. A filter of width W around a prediction p sends x, and takes it as its new centre, at a tick where |x - p| > W/2.
A shadow does the same without sending; count[i, g] says how often. All predictors are one family, run at both ends
from what the last message carried (value, step, decay): each tick p += step, step *= decay, so after k ticks
p = c + v (1 - decay^k) / (1 - decay).
    LAST   step 0: the last value stands
    TREND  step = the last change: moving averages, counters, ramps without noise
    MEAN   step = (mean - c)(1 - decay): back to the site's running mean, as AR(1) data do
    DRIFT  step = the smoothed slope: ramps under noise
The first value of an item sets its centre and is not counted.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "DRIFT", "LAST", "MEAN", "PREDICTORS", "SITE", "TREND",
    "advance", "counts", "learn", "new_site", "pick", "resend", "watch", "watch_predictors",
]  # fmt: skip

LAST, TREND, MEAN, DRIFT = 0, 1, 2, 3
PREDICTORS = 4

# columns of a site's running estimates, one row per item
VALUE, CHANGE, SLOPE, LEVEL, SQUARE, PRODUCT, SEEN = 0, 1, 2, 3, 4, 5, 6
SITE = 7
# shares of the newest value in the estimates; measured on moving averages of bursts, road speeds, temperatures, prices
SLOPE_GAIN = 0.1
LEVEL_GAIN = 0.15
MOMENT_GAIN = 0.05
TREND_DECAY = 0.98
DRIFT_DECAY = 0.99
PICK_SHARE = 0.95  # a predictor must send at most this share of what the present one sends,
PICK_SIGMAS = 1.5  # and so much less that it is unlikely to be chance
MEMORY = 256  # messages after which shadow counts of predictors are halved


def new_site(items: int) -> NDArray:
    """Running estimates of items that have no value yet."""
    return np.zeros((items, SITE))


@njit(cache=True, nogil=True, inline="always")
def watch(x, i, centre, half, count):
    """One update of the G shadow filters of item i without predictor; half is half their widths."""
    for g in range(centre.shape[1]):
        if abs(x - centre[i, g]) > half[i, g]:
            count[i, g] += 1.0
            centre[i, g] = x


@njit(cache=True, nogil=True, inline="always")
def learn(x, i, site):
    """The site's estimates after the value x of this tick (also when it is the same as before)."""
    if site[i, SEEN] == 0.0:
        site[i, VALUE] = x
        site[i, LEVEL] = x
        site[i, SEEN] = 1.0
    else:
        site[i, SEEN] += 1.0
        newest = 1.0 / site[i, SEEN]
        before, now = site[i, VALUE] - site[i, LEVEL], x - site[i, LEVEL]
        site[i, CHANGE] = x - site[i, VALUE]
        site[i, SLOPE] += max(SLOPE_GAIN, newest) * (site[i, CHANGE] - site[i, SLOPE])
        site[i, PRODUCT] += max(MOMENT_GAIN, newest) * (before * now - site[i, PRODUCT])
        site[i, SQUARE] += max(MOMENT_GAIN, newest) * (before * before - site[i, SQUARE])
        site[i, LEVEL] += max(LEVEL_GAIN, newest) * now
        site[i, VALUE] = x


@njit(cache=True, nogil=True, inline="always")
def resend(x, i, predictor, site):
    """What a message carries besides x: the step and decay of the prediction from here."""
    step, decay = 0.0, 0.0
    if predictor == TREND:
        step, decay = site[i, CHANGE] * TREND_DECAY, TREND_DECAY
    elif predictor == MEAN:
        if site[i, SQUARE] > 0.0:
            decay = min(max(site[i, PRODUCT] / site[i, SQUARE], 0.0), 0.999)
        step = (site[i, LEVEL] - x) * (1.0 - decay)
    elif predictor == DRIFT:
        step, decay = site[i, SLOPE] * DRIFT_DECAY, DRIFT_DECAY
    return step, decay


@njit(cache=True, nogil=True, inline="always")
def advance(i, predicted, step, decay):
    """The prediction one tick on, at either end."""
    predicted[i] += step[i]
    step[i] *= decay[i]


@njit(cache=True, nogil=True, inline="always")
def watch_predictors(x, i, half, predicted, step, decay, count, site):
    """One tick of one shadow per predictor, [n, PREDICTORS], all at half the item's width; learn comes first."""
    for p in range(PREDICTORS):
        at = predicted[i, p] + step[i, p]
        step[i, p] *= decay[i, p]
        if abs(x - at) > half:
            count[i, p] += 1.0
            at = x
            step[i, p], decay[i, p] = resend(x, i, p, site)
        predicted[i, p] = at


@njit(cache=True, nogil=True)
def pick(now, count):
    """The predictor for an item from its shadow counts, which fade in place; another only if clearly better."""
    best = now
    for p in range(PREDICTORS):
        if count[p] < count[best]:
            best = p
    less = count[now] - count[best]
    if less < PICK_SIGMAS * np.sqrt(count[now] + count[best]) or count[best] > PICK_SHARE * count[now]:
        best = now
    if count[now] > MEMORY:
        for p in range(PREDICTORS):
            count[p] *= 0.5
    return best


@njit(cache=True, nogil=True)
def counts(tick, value, start, width, predictor):
    """Messages per item and width, [n, G], over the rows start[i] … start[i + 1] of item i, in order of tick."""
    n, G = width.shape
    found = np.zeros((n, G), np.int64)
    centre, step, decay = np.empty((1, G)), np.zeros((1, G)), np.zeros((1, G))
    half, tally = np.empty((1, G)), np.zeros((1, G))
    site = np.zeros((1, SITE))
    for i in range(n):
        if start[i] == start[i + 1]:
            continue
        for g in range(G):
            centre[0, g] = value[start[i]]
            half[0, g] = 0.5 * width[i, g]
        step[:] = 0.0
        decay[:] = 0.0
        tally[:] = 0.0
        if predictor == LAST:
            for r in range(start[i] + 1, start[i + 1]):
                watch(value[r], 0, centre, half, tally)
        else:
            site[:] = 0.0
            for r in range(start[i], start[i + 1]):
                until = tick[r + 1] if r + 1 < start[i + 1] else tick[r] + 1
                for _ in range(tick[r], until):
                    learn(value[r], 0, site)
                    _watch_predicted(value[r], predictor, centre, step, decay, half, tally, site)
        for g in range(G):
            found[i, g] = np.int64(tally[0, g])
    return found


@njit(cache=True, nogil=True)
def _watch_predicted(x, predictor, centre, step, decay, half, tally, site):
    """One tick of G shadows with one predictor."""
    for g in range(centre.shape[1]):
        at = centre[0, g] + step[0, g]
        step[0, g] *= decay[0, g]
        if abs(x - at) > half[0, g]:
            tally[0, g] += 1.0
            at = x
            step[0, g], decay[0, g] = resend(x, 0, predictor, site)
        centre[0, g] = at
