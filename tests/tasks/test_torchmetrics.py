"""Metrics against torchmetrics, in an interpreter that has PyTorch and torchmetrics.

``make test-torch`` makes one; TRTBENCH_TEST_TORCH_PYTHON names another. It computes, this one
compares: the package itself needs neither.
"""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from scipy.special import softmax

from real_parts import has_modules
from trtbench.analysis.check import OutputTally
from trtbench.analysis.scores import agreement, depth_metrics, per_class, rank_of_label, top_k

# torchmetrics imports whatever torchvision is installed, even one made for another PyTorch.
GUARD = """
import sys
sys.modules["torchvision"] = None  # as if there were none
"""

SECOND = (
    GUARD
    + """
import json
import numpy as np
import torch
import torchmetrics.functional as F
from torchmetrics.functional.audio import signal_noise_ratio
from torchmetrics.functional.classification import multiclass_accuracy

data = {name: torch.from_numpy(each) for name, each in np.load(sys.argv[1]).items()}
scores, other, labels = data["scores"], data["other"], data["labels"]
classes = scores.shape[1]
found = {
    f"top{k}": multiclass_accuracy(scores, labels, num_classes=classes, top_k=k, average="micro")
    for k in (1, 5)
}
found["agreement"] = multiclass_accuracy(
    other.argmax(1), scores.argmax(1), num_classes=classes, average="micro"
)
found["per_class"] = multiclass_accuracy(scores, labels, num_classes=classes, average="none")
p, q = scores.softmax(1), other.softmax(1)
found["kl"] = F.kl_divergence(p, q)
found["mean_abs"] = F.mean_absolute_error(other, scores)
found["rmse"] = F.mean_squared_error(other, scores, squared=False)
flat = [each.reshape(1, -1) for each in (other, scores)]
found["cosine"] = F.cosine_similarity(*flat, reduction="mean")
found["sqnr_db"] = signal_noise_ratio(other.reshape(-1), scores.reshape(-1))
depth, truth = data["depth"], data["truth"]
found["depth_abs_rel"] = F.mean_absolute_percentage_error(depth, truth)
found["depth_rmse"] = F.mean_squared_error(depth, truth, squared=False)
found["depth_rmse_log"] = F.mean_squared_error(depth.log(), truth.log(), squared=False)
found["depth_log10"] = F.mean_absolute_error(depth.log10(), truth.log10())
print(json.dumps({name: each.tolist() for name, each in found.items()}))
"""
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, torch_python: str) -> tuple[dict, dict]:
    """Random data, and what torchmetrics says about it."""
    if not has_modules(torch_python, "torch", "torchmetrics", "lightning_utilities"):
        pytest.skip("the interpreter with PyTorch has no torchmetrics")
    rng = np.random.default_rng(7)
    scores = 2 * rng.standard_normal((203, 11))
    truth = rng.uniform(0.5, 20, 4000)
    data = {
        "scores": scores,
        "other": scores + 0.4 * rng.standard_normal(scores.shape),
        "labels": np.where(rng.random(203) < 0.6, scores.argmax(1), rng.integers(0, 11, 203)),
        "truth": truth,
        "depth": truth * np.exp(0.3 * rng.standard_normal(4000)),
    }
    path = tmp_path_factory.mktemp("torchmetrics") / "data.npz"
    np.savez(path, **data)
    done = subprocess.run(
        [torch_python, "-c", SECOND, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return data, json.loads(done.stdout)


def test_accuracy_as_torchmetrics_has_it(both: tuple[dict, dict]) -> None:
    data, second = both
    for k in (1, 5):
        found = top_k(rank_of_label(data["scores"], data["labels"]), k=k)
        assert found.value == pytest.approx(second[f"top{k}"], rel=1e-6)
    found = agreement(data["scores"].argmax(axis=1), data["other"].argmax(axis=1))
    assert found.value == pytest.approx(second["agreement"], rel=1e-6)
    rows = per_class(rank_of_label(data["scores"], data["labels"]), data["labels"])
    assert [row.top1 for row in rows] == pytest.approx(second["per_class"], rel=1e-6)


@pytest.mark.parametrize("probabilities", [False, True])
def test_differences_as_torchmetrics_has_them(both: tuple[dict, dict], probabilities: bool) -> None:
    data, second = both
    sides = [data["scores"], data["other"]]
    if probabilities:
        sides = [softmax(each, axis=1) for each in sides]
    tally = OutputTally("scores")
    for start in range(0, len(sides[0]), 64):
        rows = slice(start, start + 64)
        tally.add(sides[0][rows], sides[1][rows], start=start)
    found = tally.result()
    assert found.classes is not None
    assert found.classes.kl == pytest.approx(second["kl"], rel=1e-6)
    if not probabilities:
        for name in ("mean_abs", "rmse", "cosine", "sqnr_db"):
            assert getattr(found, name) == pytest.approx(second[name], rel=1e-6), name


def test_depth_as_torchmetrics_has_it(both: tuple[dict, dict]) -> None:
    data, second = both
    found = depth_metrics(data["depth"], data["truth"])
    for name in ("abs_rel", "rmse", "rmse_log", "log10"):
        assert found[name] == pytest.approx(second[f"depth_{name}"], rel=1e-6), name
