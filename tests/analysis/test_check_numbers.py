"""Numeric checks against hand-computed values and a second implementation."""

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from trtbench.analysis import check
from trtbench.core.errors import UsageError
from trtbench.core.results import TensorDiff


def tensor_diff(reference: np.ndarray, test: np.ndarray, **tolerances: float) -> TensorDiff:
    return check.tensor_diffs({"x": reference}, {"x": test}, **tolerances)[0]


def checked(reference: np.ndarray, candidate: np.ndarray, *, size: int = 3, **options: object):
    """Compare in batches of a size that does not divide the items."""
    tally = check.OutputTally("y", **options)  # type: ignore[arg-type]
    for start in range(0, len(reference), size):
        stop = start + size
        tally.add(reference[start:stop], candidate[start:stop], start=start)
    return tally.result(tuple(f"image {i}" for i in range(len(reference))))


def met(rule: str, *checks: check.OutputCheck) -> bool:
    return all(each.passed for each in check.judge_rules([check.rule_from_text(rule)], checks))


@pytest.mark.parametrize(
    ("precision", "noise", "passed"),
    [
        ("fp32", 3e-5, True), ("fp32", 3e-4, False), ("fp16", 6e-3, True), ("fp16", 2e-2, False),
        ("bf16", 1e-2, True), ("bf16", 3e-2, False), ("int8+fp16", 0.09, True),
        ("int8", 0.2, False), ("fp8", 0.09, True),
    ],
)  # fmt: skip
def test_outputs_are_judged_by_the_lower_precision(
    precision: str, noise: float, passed: bool
) -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((50, 40))
    far = checked(reference, reference + noise * rng.standard_normal((50, 40)))
    for precisions in (("fp32", precision), (precision, precision)):
        [judged] = check.judge_outputs([far], precisions=precisions)
        assert judged.passed is passed, judged.message
    [judged] = check.judge_outputs([far], precisions=("fp32", None))
    assert judged.passed is (noise < 2e-2), "of an unknown precision: perhaps FP16"
    assert "for FP16, as the precision of one side is unknown" in judged.message
    [judged] = check.judge_outputs([far], precisions=["fp32"], floor=[far])
    assert judged.passed, "the reference repeats no better"


def test_numbers_by_hand_and_the_reference_scales_the_tolerance() -> None:
    reference = np.array([[1.0, 2.0], [0.0, -4.0]], np.float32)
    candidate = np.array([[1.0, 2.5], [0.1, -4.0]], np.float32)
    found = checked(reference, candidate, size=1, rtol=0.25, atol=0.0)
    assert found.elements == 4
    # 2.5 is within 0.25 * 2 of 2; 0.1 is not within 0.25 * 0 of 0.
    assert found.close == 0.75
    assert found.max_abs == pytest.approx(0.5)
    assert found.max_abs_at == (0, 1)
    assert found.mean_abs == pytest.approx(0.15)
    assert found.rmse == pytest.approx(np.sqrt((0.25 + 0.01) / 4), rel=1e-6)
    assert found.rel_l2 == pytest.approx(np.sqrt(0.26 / 21), rel=1e-6)
    assert found.bias == pytest.approx(0.6 / 4 / np.sqrt(21 / 4), rel=1e-6)
    assert found.worst[0].name == "image 0"
    reference, candidate = np.array([[1.0]]), np.array([[1.12]])
    assert checked(reference, candidate, rtol=0.11, atol=0.0).close == 0.0
    assert checked(candidate, reference, rtol=0.11, atol=0.0).close == 1.0


def test_batches_do_not_change_anything() -> None:
    rng = np.random.default_rng(1)
    reference = rng.standard_normal((17, 3, 4)).astype(np.float32)
    candidate = (reference + 0.01 * rng.standard_normal(reference.shape)).astype(np.float16)
    whole, parts = (checked(reference, candidate, size=size, classes=False) for size in (17, 5))
    for name, value in whole.numbers().items():
        assert parts.numbers()[name] == pytest.approx(value), name


def test_what_is_not_finite_is_counted_and_is_the_worst() -> None:
    reference = np.ones((4, 2))
    candidate = np.ones((4, 2))
    candidate[2, 1], candidate[3, 0], candidate[0, 0] = np.nan, np.inf, 1.5
    found = checked(reference, candidate, classes=False)
    assert (found.nan, found.inf) == (1, 1)
    assert found.close == 5 / 8
    assert found.max_abs == 0.5
    assert {worst.item for worst in found.worst[:2]} == {2, 3}


def test_a_reference_that_is_not_finite_must_be_met() -> None:
    reference = np.array([[np.inf, np.nan, 1.0]])
    found = checked(reference, reference.copy(), classes=False)
    assert found.close == pytest.approx(2 / 3)  # NaN is close to nothing, as in numpy.isclose
    assert found.reference_nonfinite == 2
    reference = np.full((2, 3), np.nan)
    assert checked(reference, reference.copy(), classes=False).identical
    other = reference.copy()
    other[0, 0] = np.inf
    assert not checked(reference, other, classes=False).identical


def test_parts_of_the_usual_size() -> None:
    rng = np.random.default_rng(3)
    reference = rng.standard_normal((100, 100))
    candidate = reference + 0.1 * rng.standard_normal(reference.shape)
    found = checked(reference, candidate, size=40, classes=False)
    exact = np.quantile(np.abs(reference), 0.9)
    assert found.p90_reference == pytest.approx(exact, rel=0.05)
    for point in found.scales:
        share = (np.abs(candidate - reference) <= point.atol).mean()
        assert point.close == pytest.approx(share, abs=0.03)


def test_ranks_by_hand() -> None:
    """ArtTRT's table: two of three samples swap their first two classes."""
    reference = np.array([[3.0, 2.0, 0.0], [1.0, 2.0, 3.0], [5.0, 4.9, 0.0]])
    candidate = np.array([[2.5, 2.0, 0.0], [1.0, 3.5, 3.0], [4.9, 5.0, 0.0]])
    classes = checked(reference, candidate).classes
    assert classes.argmax_match == pytest.approx(1 / 3)
    first = classes.ranks[0]
    assert first.disagree == pytest.approx(2 / 3)
    # Classes at the candidate's first place: 0, 1, 1.
    assert first.mae == pytest.approx((0.5 + 1.5 + 0.1) / 3)
    assert classes.ranks[2].disagree == 0.0


def test_every_sample_of_every_batch_counts_for_the_ranks() -> None:
    rng = np.random.default_rng(4)
    reference = rng.standard_normal((64, 20))
    candidate = reference + 0.3 * rng.standard_normal(reference.shape)
    classes = checked(reference, candidate, size=16).classes
    a, b = (np.argsort(-each, axis=1, kind="stable") for each in (reference, candidate))
    for row in classes.ranks:
        assert row.disagree == pytest.approx((a[:, row.rank - 1] != b[:, row.rank - 1]).mean())
    sets = [(set(x[:5]), set(y[:5])) for x, y in zip(a, b, strict=True)]
    jaccard = np.mean([len(x & y) / len(x | y) for x, y in sets])
    assert classes.top5_agreement == pytest.approx(jaccard)


@pytest.mark.parametrize("probabilities", [False, True])
def test_divergence_as_scipy_has_it(probabilities: bool) -> None:
    rng = np.random.default_rng(5)
    reference = 3 * rng.standard_normal((31, 12))
    candidate = reference + 0.2 * rng.standard_normal(reference.shape)
    p, q = softmax(reference, axis=1), softmax(candidate, axis=1)
    classes = checked(*((p, q) if probabilities else (reference, candidate)), size=8).classes
    assert classes.probabilities is probabilities
    kl = rel_entr(p, q).sum(axis=1)
    assert classes.kl == pytest.approx(kl.mean())
    assert classes.kl_max == pytest.approx(kl.max())


def test_scores_that_are_no_numbers_name_no_class() -> None:
    """NaN is not class 0: an engine that lost an item agrees with nobody about it."""
    reference = np.array([[3.0, 1, 0, 0, 0, 0], [0, 3.0, 0, 0, 0, 1], [3.0, 1, 0, 0, 0, 0]])
    candidate = reference.copy()
    candidate[0] = np.nan
    candidate[1, 2] = np.inf
    found = checked(reference, candidate)
    classes = found.classes
    assert classes.unranked == 2
    assert classes.argmax_match == pytest.approx(1 / 3)
    assert classes.top5_agreement == pytest.approx(1 / 3)
    assert (classes.kl, classes.kl_max, classes.ranks[0].mae) == (0.0, 0.0, 0.0)
    assert classes.ranks[0].disagree == pytest.approx(2 / 3)
    assert found.worst[0].nonfinite == 6
    assert found.worst[0].max_abs is None, "nothing is left to compare"
    lost = checked(reference, np.full_like(reference, np.nan)).classes
    assert (lost.argmax_match, lost.kl, lost.ranks[0].mae) == (0.0, None, None)
    assert not met("kl<=1", checked(reference, candidate * np.nan))


def test_impossible_classes_keep_divergence_a_number() -> None:
    reference = np.log(np.array([[0.5, 0.5, 1e-9]]))
    candidate = np.array([[0.0, -np.inf, -np.inf]])
    classes = checked(reference, candidate).classes
    assert classes.kl is not None
    assert 100 < classes.kl < 700
    assert classes.unranked == 0


def test_probabilities_against_logits_are_told_and_brought_together() -> None:
    rng = np.random.default_rng(6)
    logits = rng.standard_normal((5, 8))
    classes = checked(logits, softmax(logits, axis=1)).classes
    assert classes.mixed
    assert classes.kl == pytest.approx(0.0, abs=1e-12)
    assert not checked(logits, logits).classes.mixed


def test_shapes_that_differ_are_said_and_break_rules() -> None:
    found = checked(np.ones((2, 3)), np.ones((2, 4)))
    assert found.note == "shapes differ: 3 against 4 per item"
    assert not met("max_abs<=1", found)


def test_outputs_are_paired_by_name_then_by_place() -> None:
    assert check.pair_outputs({"a": 0, "b": 0}, {"b": 0, "c": 0}) == {"b": "b"}
    assert check.pair_outputs({"a": 0}, {"output0": 0}) == {"a": "output0"}
    assert check.pair_outputs({"a": 0}, {"x": 0, "y": 0}) == {}


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("max_abs<=0.1", True), ("max_abs <= 0.5", False), ("max_abs<0.5", True),
        ("close>=99%", True), ("y:close>=0.99", True), ("other:close>=1", True), ("nan==0", False),
        ("cosine>=0.9", True), ("max_abs<=0.5 and nan==0", False),
        ("max_abs<=0.5 and close>=99%", True),
    ],
)  # fmt: skip
def test_rules(text: str, broken: bool) -> None:
    assert met(text, checked(np.zeros((4, 6)), np.full((4, 6), 0.5))) is not broken
    same = np.random.default_rng(0).standard_normal((5, 7))
    assert met("sqnr_db>=50", checked(same, same)), "there is no noise to fail for"


@pytest.mark.parametrize("text", ["max_abs", "maxabs<1", "max_abs<big", "<3"])
def test_rules_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError):
        check.rule_from_text(text)


def test_differences_by_hand_and_at_the_edges() -> None:
    reference = np.array([1.0, -2.0, 2.0, 0.0])
    diff = tensor_diff(reference, np.array([1.0, -2.0, 2.3, 0.0]), rtol=0.1, atol=0.0)
    assert diff.max_at == (2,)
    assert diff.rel_l2 == pytest.approx(0.1)
    assert diff.sqnr_db == pytest.approx(20.0)
    assert diff.cosine == pytest.approx(9.6 / (3 * np.sqrt(1 + 4 + 2.3**2)))
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
    missing = check.tensor_diffs({"a": np.ones(1)}, {"b": np.ones(1)})
    assert [diff.name for diff in missing] == ["a", "b"]
    assert all(diff.note for diff in missing)
