"""How many independent samples a series is worth.

Samples of one process follow one another: a disturbed moment disturbs many. Every interval that
counted them as independent would be too narrow (measured: 0 to 13 % coverage instead of 95 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.samples import Column

BLOCK = 1 << 16
"""Longer series are correlated block by block: lags beyond this are looked at only if needed."""

BATCHES = (20, 8)
"""Long batches see changes so slow that correlations at small lags do not show them."""
LEAST_BATCH = 20
TAU_SPREAD = 12.0
"""The relative variance of an estimated correlation time, times the effective samples."""

BINS = 1 << 15
"""Indicators of longer series are summed into this many bins."""


@dataclass(frozen=True)
class Effective:
    """The independent samples a series is worth, and its correlation time in samples."""

    count: float
    tau: float


def effective_samples(column: Column, *, order: NDArray[np.integer] | None = None) -> Effective:
    """Count effective samples: n / tau, by Geyer's initial positive sequence on ranks.

    ``order`` is the column's argsort where the caller has it already.
    """
    n = len(column)
    if n < 4:
        return Effective(float(n), 1.0)
    ranks = average_ranks(column, order=order)
    if ranks[0] == ranks[1] and np.ptp(ranks) == 0:
        return Effective(float(n), 1.0)
    tau = max(1.0, _geyer_tau(ranks))
    return Effective(n / tau, tau)


def effective_samples_at(column: Column, threshold: float) -> float:
    """Count effective samples for the share of samples below a threshold.

    What decides how well a percentile is known is whether its exceedances come in clusters. A
    slow drift of the level says little about rare, scattered disturbances, and the other way
    round, so each percentile has a count of its own. Sums over bins keep it fast: the variance
    of a sum is that of its bins and their correlation.
    """
    n = len(column)
    below = column <= threshold
    share = float(below.mean())
    if n < 4 or not 0 < share < 1:
        return float(n)
    width = max(1, n // BINS)
    bins = n // width
    sums = below[: bins * width].reshape(bins, width).sum(axis=1, dtype=np.float64)
    spread = float(sums.var())
    if spread == 0:
        return float(n)
    tau = _geyer_tau(sums) * spread / (width * share * (1 - share))
    tau = max(1.0, tau, *(_batch_tau(below, share, batches) for batches in BATCHES))
    # What is known of the correlation time of few effective samples is little: count fewer.
    return n / (tau * (1 + (1 - 1 / tau) * math.sqrt(TAU_SPREAD * tau / n)))


def _batch_tau(below: NDArray[np.bool_], share: float, batches: int) -> float:
    """Take the correlation time from how far the means of long batches lie apart."""
    size = len(below) // batches
    if size < LEAST_BATCH:
        return 1.0
    means = below[: batches * size].reshape(batches, size).mean(axis=1)
    return size * float(means.var(ddof=1)) / (share * (1 - share))


def average_ranks(column: Column, *, order: NDArray[np.integer] | None = None) -> Column:
    """Rank a series from 0; equal values share the mean of their ranks.

    Ties in order of time would look like a trend, and clocks make many ties.
    """
    if order is None:
        order = np.argsort(column)
    ordered = column[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ranks = np.empty(len(column))
    if len(starts) == len(column):
        ranks[order] = np.arange(len(column), dtype=np.float64)
        return ranks
    sizes = np.diff(np.append(starts, len(column)))
    ranks[order] = np.repeat(starts + (sizes - 1) / 2.0, sizes)
    return ranks


def autocorrelation(series: Column, *, block: int = BLOCK) -> Column:
    """Compute the autocorrelation from lag 0 up to the block length, by FFT."""
    n = len(series)
    block = min(block, n)
    centred = series - series.mean()
    size = _fast_length(2 * block)
    power = np.zeros(size // 2 + 1)
    pairs = np.zeros(block)
    for begin in range(0, n, block):
        part = centred[begin : begin + block]
        power += np.square(np.abs(np.fft.rfft(part, size)))
        pairs[: len(part)] += np.arange(len(part), 0, -1)
    sums = np.fft.irfft(power, size)[:block]
    if sums[0] <= 0:
        return np.ones(1)
    if n > block:
        # Each lag sees fewer pairs than n - lag, because pairs across blocks are left out.
        sums = sums / pairs * (n - np.arange(block))
    return np.asarray(sums / sums[0])


def _fast_length(least: int) -> int:
    """Take a length an FFT is fast at: a power of two times 1, 3 or 5, whichever wastes least."""
    return min(factor << (-(-least // factor) - 1).bit_length() for factor in (1, 3, 5))


def _geyer_tau(ranks: Column) -> float:
    for block in (BLOCK, len(ranks)):
        rho = autocorrelation(ranks, block=block)
        paired = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
        ends = np.flatnonzero(paired <= 0)
        if len(ends) or block >= len(ranks):
            stop = int(ends[0]) if len(ends) else len(paired)
            return float(2.0 * paired[:stop].sum() - 1.0)
    raise AssertionError("the last block is the whole series")
