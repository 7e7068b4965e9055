"""Checks end to end, on ONNX Runtime: the same inputs through every side, bounded memory, rules."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import trtbench
from command import Say
from models import conv_model, linear_model, save_text, threshold_model
from trtbench.accuracy.check import attach_checks, run_check
from trtbench.analysis.check import Checked
from trtbench.requests.models import CheckRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.report import load_runs

Checking = Callable[..., Checked]


def changed(source: Path, target: Path, *, name: str, by: float) -> Path:
    """Copy a model with one of its weights multiplied."""
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        if tensor.name == name:
            values = numpy_helper.to_array(tensor) * np.float32(by)
            tensor.CopyFrom(numpy_helper.from_array(values, name))
    onnx.save(model, target)
    return target


@pytest.fixture
def check(tmp_path: Path, store: Store, config: Config) -> Checking:
    def call(*models: Path, **asked: object) -> Checked:
        given = {"batch": 7, "threads": 1, "random": 40, "output": tmp_path / "out", **asked}
        request = CheckRequest(reference=models[0], candidates=models[1:], **given)  # type: ignore[arg-type]
        return run_check(request, store=store, config=config)

    return call


def test_known_differences_are_found_and_the_last_short_batch_counts(
    tmp_path: Path, check: Checking
) -> None:
    model = conv_model(tmp_path / "a.onnx")
    double = changed(model, tmp_path / "double.onnx", name="head.weight", by=2.0)
    found = check(model, model, double)
    same, other = found.candidates
    assert found.items == 40
    assert found.floor[0].identical
    assert same.checks[0].identical
    assert same.checks[0].close == 1.0
    [logits] = other.checks
    assert logits.items == 40
    assert logits.elements == 400
    assert logits.rel_l2 == pytest.approx(1.0, rel=1e-5)
    assert logits.cosine == pytest.approx(1.0)
    assert logits.classes.argmax_match == 1.0
    with np.load(found.files[0]) as worst:
        assert worst["input/image"].shape == (3, 16, 16)
        assert worst["candidate/logits"] == pytest.approx(2 * worst["reference/logits"], rel=1e-4)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        ({}, ""),
        ({"outputs": 4}, "shapes differ: 3 against 4"),
        ({"name": "z"}, "output names differ: y against z"),
        ({"divisor": 0.0}, "values that are not finite: 120 NaN"),
    ],
)
def test_a_check_passes_or_fails_by_itself(
    tmp_path: Path, say: Say, candidate: dict[str, object], reason: str
) -> None:
    one = linear_model(tmp_path / "a.onnx")
    two = linear_model(tmp_path / "b.onnx", **candidate)  # type: ignore[arg-type]
    said = say("check", one, two, "--random", "40", "--floor", "off")
    first = " ".join(said.out.splitlines()[:2])
    assert (said.status, first[:4]) == ((3, "FAIL") if reason else (0, "PASS")), first
    assert reason in first
    checked = trtbench.check(one, two, random=40, floor="off")
    assert checked.passed is not bool(reason)
    assert reason in " ".join(checked.candidates[0].reasons)


def test_values_that_are_not_finite_count_on_both_sides(tmp_path: Path, say: Say) -> None:
    nan = linear_model(tmp_path / "nan.onnx", divisor=0.0)
    words = ["check", nan, nan, "--random", "40", "--floor", "off"]
    assert "120 NaN, 0 Inf, 120 of them in the reference" in say(*words, status=3).out
    told = say(*words, "--expect", "nan==0", "--expect", "inf==0", status=3).out
    assert told.startswith("FAIL: nan.onnx against nan.onnx: nan==0: y has nan 120")
    assert "pass  inf==0: y has inf 0" in told, "what is met is shown, too"


def with_prior(path: Path, batch: int | str) -> Path:
    """Write a model whose first input is one row for all items."""
    ends = f"(float[1, 4] prior, float[{batch}, 16] x) => (float[{batch}, 4] y)"
    weight = np.arange(64.0).reshape(16, 4)
    return save_text(path, f"net {ends} {{p = MatMul(x, w) y = Add(p, prior)}}", w=weight)


def test_the_batch_is_told_by_all_inputs_and_what_items_share_is_the_same_in_each(
    tmp_path: Path, check: Checking
) -> None:
    opened, fixed = (with_prior(tmp_path / f"{batch}.onnx", batch) for batch in ("batch", 8))
    found = check(opened, fixed, random=19, batch=8)
    assert found.items == 19
    [output] = found.candidates[0].checks
    assert output.max_abs == pytest.approx(0.0, abs=1e-4), "the same items, whatever the batch"


def test_outputs_whose_shape_depends_on_the_data_are_compared(
    tmp_path: Path, check: Checking
) -> None:
    first = threshold_model(tmp_path / "a.onnx", above=0.5)
    rng = np.random.default_rng(3)
    values = rng.uniform(0, 1, (12, 30)).astype(np.float32)
    values[7, 4] = 0.503
    values[(values > 0.5) & (values < 0.506) & (values != np.float32(0.503))] = 0.6
    np.savez(tmp_path / "x.npz", x=values)
    asked = {"data": tmp_path / "x.npz", "batch": 1}
    same = check(first, first, **asked).candidates[0].checks
    assert [each.output for each in same] == ["places", "y"]
    assert all(each.identical for each in same)
    # An output without rows is left out of batches and named.
    [batched] = check(first, first, batch=4).candidates
    assert [each.output for each in batched.checks] == ["y"]
    assert any("places" in note and "--batch 1" in note for note in batched.notes)
    other = threshold_model(tmp_path / "b.onnx", above=0.505)
    places, y = check(first, other, **asked).candidates[0].checks
    assert y.identical
    assert (places.items, places.misshapen) == (12, 1)
    assert places.numbers()["shape_mismatch"] == pytest.approx(1 / 12)
    counts = (values > 0.5).sum(axis=1)
    assert places.elements == counts.sum()
    assert places.close == pytest.approx(1 - counts[7] / counts.sum())
    assert places.max_abs == 0, "what can be compared is equal"
    assert places.classes is None
    assert places.worst[0].name == "item 7"
    assert places.worst[0].shapes == f"{counts[7]} against {counts[7] - 1}"
    with np.load(next((tmp_path / "out" / "worst").glob("b-0-item_7.npz"))) as saved:
        assert len(saved["reference/places"]) == counts[7]


def test_checks_are_joined_to_runs_of_the_same_bytes(
    tmp_path: Path, store: Store, check: Checking, measured
) -> None:
    model = conv_model(tmp_path / "a.onnx")
    other = changed(model, tmp_path / "b.onnx", name="head.weight", by=1.5)
    runs = [measured(path) for path in (model, other)]
    assert attach_checks(check(model, other), store) == [runs[1].id]
    [read], _ = load_runs([runs[1].id], store=store)
    assert read.extra["checks"][0]["rel_l2"] == pytest.approx(0.5, rel=1e-4)  # type: ignore[index]
    (store.resolve(runs[1].id) / "checks.json").unlink()
    [later], _ = load_runs([runs[1].id], store=store)
    assert later.extra["checks"] == read.extra["checks"], "what is measured later is joined as well"
    assert list(later.extra["checks"][0])[2:5] == ["close", "max_abs", "mean_abs"]  # type: ignore[index]


def test_a_candidate_that_fails_does_not_take_the_others_along(tmp_path: Path, say: Say) -> None:
    model, two = conv_model(tmp_path / "a.onnx"), tmp_path / "two.onnx"
    two.write_bytes(b"\x08\x08 no model")
    rest = ["--random", "3", "--floor", "off", "-o", "out"]
    assert "identical to the reference" not in say("check", model, two, model, *rest, status=1).out
    assert "identical to the reference" in (tmp_path / "out" / "check.md").read_text()
    told = say("check", model, two, model, *rest, "-v", status=1)
    assert "identical to the reference" in told.out
    assert "not all candidates could be checked" in told.err
    kept = json.loads((tmp_path / "out" / "check.json").read_text())
    assert [each["model"] for each in kept["failed"]] == ["two.onnx"]
    assert len(kept["candidates"]) == 1
    assert "two.onnx" in say("check", model, two, *rest, status=1).err
