"""The distributions are those of SciPy."""

from __future__ import annotations

import pytest

from trtbench.analysis.distributions import (
    binomial_cdf,
    normal_quantile,
    t_quantile,
    t_two_sided_p,
)

special = pytest.importorskip("scipy.special")


@pytest.mark.parametrize("df", [0.5, 1, 1.5, 2, 3, 7.3, 19, 100, 1e4])
@pytest.mark.parametrize("p", [1e-6, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.995, 0.9999999])
def test_quantiles_of_t(df: float, p: float) -> None:
    assert t_quantile(p, df=df) == pytest.approx(special.stdtrit(df, p), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("df", [1, 2, 7.3, 19, 100, 1e5])
@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 2.0, 5.0, 20.0, 100.0])
def test_probabilities_of_t(df: float, t: float) -> None:
    assert t_two_sided_p(t, df=df) == pytest.approx(2 * special.stdtr(df, -t), rel=1e-8)


@pytest.mark.parametrize("n", [1, 5, 40, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_binomials(n: int, p: float) -> None:
    for part in (0.0, 0.05, 0.3, 0.5, 0.7, 0.99):
        k = int(part * n)
        expected = float(special.bdtr(k, n, p)) if k < n else 1.0
        assert binomial_cdf(k, n=n, p=p) == pytest.approx(expected, rel=1e-7, abs=1e-280)


def test_quantiles_of_the_normal() -> None:
    for p in (1e-9, 0.025, 0.5, 0.9, 0.999999):
        assert normal_quantile(p) == pytest.approx(special.ndtri(p), rel=1e-9, abs=1e-12)
