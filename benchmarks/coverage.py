"""Do the intervals of percentiles hold what they say on correlated series?

    python benchmarks/coverage.py [--repeats 300]

Series of known kinds are drawn again and again; of each percentile it is counted how often it is
shown, and how often its interval then holds the true value. Nominal: 95 %. Prints Markdown.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from trtbench.analysis.summary import summarize_column

QUANTILES = (0.75, 0.9, 0.95, 0.99, 0.999)
LENGTHS = (3_000, 12_000)
Random = np.random.Generator
Draw = Callable[[Random, int], np.ndarray]


def wandering(random: Random, count: int, phi: float) -> np.ndarray:
    """A level that wanders (AR 1); it remembers about 1 / (1 - phi) samples."""
    steps = random.normal(size=count) * np.sqrt(1 - phi * phi)
    steps[0] = random.normal()
    return np.asarray(lfilter([1.0], [1.0, -phi], steps))


def states(random: Random, count: int, dwell: float, share: float) -> np.ndarray:
    """Disturbed or not: disturbances of this mean length that take up this share."""
    disturbed, found, ready = random.random() < share, np.zeros(count), 0
    while ready < count:
        mean = dwell if disturbed else dwell * (1 - share) / share
        length = random.geometric(1 / mean)
        found[ready : ready + length] = disturbed
        ready, disturbed = ready + length, not disturbed
    return found


def drift_and_spikes(random: Random, count: int) -> np.ndarray:
    spikes = (random.random(count) < 0.02) * random.exponential(8, count)
    return 2 * wandering(random, count, 0.99) + random.normal(size=count) + spikes


def two_levels(random: Random, count: int, dwell: float) -> np.ndarray:
    return 4 * states(random, count, dwell, 0.3) + random.normal(size=count)


def bursts(random: Random, count: int) -> np.ndarray:
    return random.normal(size=count) + states(random, count, 30, 0.03) * random.exponential(
        6, count
    )


KINDS: dict[str, Draw] = {
    "independent": lambda random, count: wandering(random, count, 0.0),
    "wanders over 10 samples": lambda random, count: wandering(random, count, 0.9),
    "wanders over 100 samples": lambda random, count: wandering(random, count, 0.99),
    "drift over 100, scattered spikes": drift_and_spikes,
    "two levels of 50 and 120 samples": lambda random, count: two_levels(random, count, 50),
    "two levels of 300 and 700 samples": lambda random, count: two_levels(random, count, 300),
    "bursts of 30, 3 % of the time": bursts,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    repeats = parser.parse_args().repeats
    print("shown in % of series / held the truth in % of those\n")
    print(f"| series | samples | {' | '.join(f'p{100 * q:g}' for q in QUANTILES)} |")
    print(f"|---|--:|{'--:|' * len(QUANTILES)}")
    for kind, draw in KINDS.items():
        truth = np.quantile(draw(np.random.default_rng(0), 4_000_000), QUANTILES)
        for count in LENGTHS:
            cells = coverage(draw, truth, count, repeats, seed=zlib.crc32(kind.encode()))
            print(f"| {kind} | {count} | {' | '.join(cells)} |", flush=True)


def coverage(draw: Draw, truth: np.ndarray, count: int, repeats: int, *, seed: int) -> list[str]:
    random = np.random.default_rng([seed, count])
    shown, held = np.zeros(len(QUANTILES), int), np.zeros(len(QUANTILES), int)
    for _ in range(repeats):
        summary = summarize_column("host", [draw(random, count)])
        for index, q in enumerate(QUANTILES):
            interval = summary.quantile(q).interval
            if interval is not None:
                shown[index] += 1
                held[index] += interval.low <= truth[index] <= interval.high
    return [
        f"{100 * one / repeats:.0f} / {100 * other / one:.0f}" if one else "0 / –"
        for one, other in zip(shown, held, strict=True)
    ]


if __name__ == "__main__":
    main()
