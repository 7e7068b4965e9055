"""What looks at bursts on a GPU say of launches that lie apart, by simulation.

    python benchmarks/burst_looks.py --equal 2000 --slower 1000

For each row: how often equal engines are called different at any look, are ``same`` after six
launches, and how often 1 % more is found after six and at last; launches are normal, have heavy
tails, or two equally frequent modes. What a place in the order of loading costs is the same in
every group of launches; the rest is drawn anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from trtbench.analysis.verdict import burst_verdict
from trtbench.compare.turns import GROUP_SIZE, is_decided, load_orders
from trtbench.core.run import LaunchFacts

RATIOS = (0.002, 0.004, 0.007, 0.01)
ROWS = ((0.004, 0.001), (0.007, 0.001), *((0.0, apart / 2**0.5) for apart in RATIOS))
"""Standard deviation by place, and of the rest; without places, the ratio's is given."""
KINDS = ("normal", "heavy", "modes")
LOOKS = (6, 4, 6, 8, 4)
"""Launches before each look."""
CHANGE = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--equal", type=int, default=2000, help="equal pairs of each row and kind")
    parser.add_argument("--slower", type=int, default=1000, help="pairs of 1 %% more")
    flags = parser.parse_args()
    print(
        "by place, rest: equal called different | same after 6 | 1 % found after 6 | at last, in %"
    )
    for places, rest in ROWS:
        columns = [row(kind, places, rest, flags.equal, flags.slower) for kind in KINDS]
        cells = (
            " / ".join(f"{each:g}" for each in column) for column in zip(*columns, strict=True)
        )
        print(f"{places:.2%}, {rest:.2%}: {' | '.join(cells)}", flush=True)


def row(kind: str, places: float, rest: float, equal: int, slower: int) -> Sequence[float]:
    same = [looked_at(seed, kind, places, rest, 0.0) for seed in range(equal)]
    more = [looked_at(seed, kind, places, rest, CHANGE) for seed in range(slower)]
    counts = (
        sum(last in ("faster", "slower") for _, last in same) / equal,
        sum(first == "same" for first, _ in same) / equal,
        sum(first == "slower" for first, _ in more) / slower,
        sum(last == "slower" for _, last in more) / slower,
    )
    return [round(100 * each, 2) for each in counts]


def looked_at(seed: int, kind: str, places: float, rest: float, change: float) -> tuple[str, str]:
    """Add launches until the verdict is settled; gives that of the first look, and the last."""
    generator = np.random.default_rng([seed, int(1e6 * places), int(1e6 * rest)])
    costs = drawn(generator, kind, places, 2 * GROUP_SIZE)
    sides: tuple[list[LaunchFacts], list[LaunchFacts]] = ([], [])
    told: list[str] = []
    for wanted in LOOKS:
        goal = len(sides[0]) + wanted
        while len(sides[0]) < goal:
            for group in load_orders(goal - len(sides[0]), at_once=GROUP_SIZE):
                for both in group:
                    noise = drawn(generator, kind, rest, 2)
                    for side, (launches, place) in enumerate(zip(sides, both, strict=True)):
                        level = costs[place] + noise[side] + side * np.log1p(change)
                        facts = LaunchFacts(burst_s=(float(np.exp(level)),), load_order=place)
                        launches.append(facts)
        verdict = burst_verdict(*sides)
        assert verdict is not None
        told.append(verdict.kind)
        if is_decided(verdict):
            break
    return told[0], told[-1]


def drawn(generator: np.random.Generator, kind: str, spread: float, count: int) -> np.ndarray:
    if kind == "normal":
        return generator.normal(0, spread, count)
    if kind == "heavy":
        return spread / 3**0.5 * generator.standard_t(3, count)
    return spread * generator.choice([-1, 1], count) + generator.normal(0, spread / 20, count)


if __name__ == "__main__":
    main()
