"""Differences of tensors by hand."""

from __future__ import annotations

import numpy as np
import pytest

from trtbench.analysis.numeric import tensor_diff, tensor_diffs


def test_differences_by_hand() -> None:
    reference = np.array([1.0, -2.0, 2.0, 0.0])
    diff = tensor_diff(reference, np.array([1.0, -2.0, 2.3, 0.0]), rtol=0.1, atol=0.0)
    assert diff.close == 0.75
    assert diff.max_abs == pytest.approx(0.3)
    assert diff.max_at == (2,)
    assert diff.mean_abs == pytest.approx(0.075)
    assert diff.rel_l2 == pytest.approx(0.1)
    assert diff.sqnr_db == pytest.approx(20.0)
    assert diff.bias == pytest.approx(0.075 / 1.5)
    assert diff.cosine == pytest.approx(9.6 / (3 * np.sqrt(1 + 4 + 2.3**2)))


def test_the_reference_scales_the_tolerance() -> None:
    """numpy scales by its second argument; swapping the two changes the verdict here."""
    assert tensor_diff(np.array([1.0]), np.array([1.11]), rtol=0.1, atol=0).close == 0.0
    assert tensor_diff(np.array([1.11]), np.array([1.0]), rtol=0.1, atol=0).close == 1.0


def test_differences_at_the_edges() -> None:
    same = tensor_diff(np.ones(3), np.ones(3))
    assert (same.rel_l2, same.sqnr_db, same.cosine, same.close) == (0.0, None, 1.0, 1.0)
    broken = tensor_diff(np.ones(3), np.array([1.0, np.nan, np.inf]))
    assert broken.nonfinite == 2
    assert broken.rel_l2 == 0.0
    masked = tensor_diff(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert (masked.nonfinite, masked.close) == (0, 1.0)
    zeros = tensor_diff(np.zeros(2), np.ones(2))
    assert (zeros.rel_l2, zeros.cosine) == (None, None)
    assert "shapes differ" in (tensor_diff(np.ones(2), np.ones(3)).note or "")
    missing = tensor_diffs({"a": np.ones(1)}, {"b": np.ones(1)})
    assert [diff.name for diff in missing] == ["a", "b"]
    assert all(diff.note for diff in missing)
