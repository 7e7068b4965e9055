"""The spread of builds: taken apart rightly, and never turned into a difference of networks."""

import math

import numpy as np
import pytest

from trtbench.analysis.builds import (
    Draw,
    builds_needed,
    bytes_aspect,
    graph_aspects,
    latency_aspect,
    spread_from_draws,
    verdict_over_builds,
)
from trtbench.core.samples import EngineGraph, LayerInfo

Rng = np.random.Generator


def draws(
    rng: Rng, *, count: int, between: float, within: float, launches: int = 3, scale: float = 1.0
) -> list[Draw]:
    found = []
    for number in range(count):
        own = rng.normal(0, between)
        logs = math.log(scale * 1e-3) + own + rng.normal(0, within, launches)
        found.append(draw(f"{number + 1}", tuple(np.exp(logs).tolist())))
    return found


def draw(label: str, launches_s: tuple[float, ...], sha256: str = "") -> Draw:
    return Draw(
        label=label, engine=f"{label}.engine", sha256=sha256 or label, size_bytes=1, build_s=1.0,
        launches_s=launches_s,
    )  # fmt: skip


def graph(**tactics: str | None) -> EngineGraph:
    return EngineGraph(
        layers=tuple(LayerInfo(name=name, type="conv", tactic=t) for name, t in tactics.items())
    )


def test_variance_between_builds_is_told_from_that_of_launches() -> None:
    rng = np.random.default_rng(0)
    many = [spread_from_draws(draws(rng, count=8, between=0.05, within=0.01)) for _ in range(60)]
    squares = [each.between**2 for each in many if each is not None]
    inside = [each.within**2 for each in many if each is not None]
    assert math.sqrt(np.mean(squares)) == pytest.approx(0.05, rel=0.15)
    assert math.sqrt(np.mean(inside)) == pytest.approx(0.01, rel=0.15)


def test_equal_builds_look_different_as_seldom_as_the_level_says() -> None:
    rng = np.random.default_rng(1)
    found = [spread_from_draws(draws(rng, count=5, between=0.0, within=0.03)) for _ in range(600)]
    ps = np.array([each.p for each in found if each is not None], dtype=float)
    assert abs((ps < 0.1).mean() - 0.1) < 0.04
    assert sum(latency_aspect(each).same is False for each in found if each) < 0.03 * len(found)


def test_builds_that_spread_are_called_different() -> None:
    spread = spread_from_draws(draws(np.random.default_rng(2), count=5, between=0.06, within=0.001))
    assert latency_aspect(spread).same is False
    assert spread.p is not None
    assert spread.p < 0.001


@pytest.mark.parametrize("claim", [0.02, 0.05])
def test_so_many_builds_find_the_claim_and_fewer_do_not(claim: float) -> None:
    rng, spread = np.random.default_rng(3), 0.02
    needed = builds_needed(claim, spread)

    def found(builds: int) -> float:
        verdicts = [
            verdict_over_builds(
                draws(rng, count=builds, between=spread, within=0.0, launches=1),
                draws(rng, count=builds, between=spread, within=0.0, launches=1, scale=1 + claim),
                metric="gpu",
            ).kind
            for _ in range(300)
        ]
        return verdicts.count("slower") / len(verdicts)

    assert found(needed) > 0.7
    if needed > 4:
        assert found(needed // 2) < 0.7


def test_two_draws_of_one_network_are_not_called_different() -> None:
    rng = np.random.default_rng(4)
    kinds = [
        verdict_over_builds(
            *(draws(rng, count=3, between=0.06, within=0.001) for _ in range(2)), metric="gpu"
        ).kind
        for _ in range(500)
    ]
    assert kinds.count("slower") + kinds.count("faster") <= 15


def test_pairs_with_one_timing_cache_find_what_single_draws_hide() -> None:
    rng = np.random.default_rng(5)
    luck = rng.normal(0, 0.06, 5)
    noise = rng.normal(0, 0.001, (2, 5))
    first = [draw(f"A{i}", (1e-3 * math.exp(luck[i] + noise[0, i]),)) for i in range(5)]
    second = [draw(f"B{i}", (1.022e-3 * math.exp(luck[i] + noise[1, i]),)) for i in range(5)]
    assert verdict_over_builds(first, second, metric="gpu", paired=True).kind == "slower"
    assert verdict_over_builds(first, second, metric="gpu").kind == "unclear"


def test_one_build_of_each_is_no_comparison() -> None:
    one = [draw("A1", (1e-3,))]
    assert verdict_over_builds(one, one, metric="gpu", paired=True).kind == "incomparable"
    assert verdict_over_builds(one, one, metric="gpu").kind == "incomparable"
    assert spread_from_draws(one) is None


def test_bytes_layers_and_kernels_are_told_apart() -> None:
    assert bytes_aspect([draw("1", (), "x"), draw("2", (), "x")]).same is True
    assert bytes_aspect([draw("1", (), "x"), draw("2", (), "y")]).same is False
    layers, kernels = graph_aspects([graph(a="0x1", b="0x2"), graph(a="0x1", b="0x3")])
    assert (layers.same, kernels.same) == (True, False)
    assert "1 of 2 layers, such as b" in kernels.text
    layers, _ = graph_aspects([graph(a="0x1"), graph(a="0x1", c="0x1")])
    assert layers.same is False
    layers, kernels = graph_aspects([graph(a="0x1"), None])
    assert (layers.same, kernels.same) == (None, None)
    _, kernels = graph_aspects([graph(a=None), graph(a=None)])
    assert kernels.same is None
