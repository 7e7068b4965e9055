"""A history with a change of level, and sweeps over dimensions, as typed."""

import json
from pathlib import Path

import pytest
from onnx import TensorProto

import logs
from command import Say
from models import identity


def test_a_history_of_logs_shows_when_its_level_changed(say: Say) -> None:
    Path("nights").mkdir()
    for night in range(1, 17):
        slower = 1.25 if night > 8 else 1.0
        median = (2.5 + 0.001 * (night % 3)) * slower
        text = logs.log_82().replace("median = 2.5 ms", f"median = {median:.4f} ms")
        Path(f"nights/{night:02}.log").write_text(text.replace("03/04/2025", f"03/{night:02}/2025"))
    assert say("import", "nights").status == 0
    said = say("history", "-o", "series", "--format", "md,html,json", "--json")
    [series] = said.json["series"]
    [change] = series["changes"]
    assert change["at"]["change"] == pytest.approx(0.25, abs=0.01)
    assert change["created"].startswith("2025-03-09")
    shown = say("history", "--changes")
    assert "+25" in shown.out
    assert "2025-03-09" in shown.out
    assert "2025-03-09" in Path("series/report.md").read_text()
    assert say("history", "--since", "2026-01-01").words.count("2025") == 0


def test_a_sweep_fills_dimensions_of_inputs_by_name(say: Say) -> None:
    identity(Path("net.onnx"), ("x", TensorProto.FLOAT, ["N", 3, "T"]))
    words = ("net.onnx", "--axis", "shape.T=4,8", "--batch", "1,2", "-o", "swept")
    words += ("--shape", "x:1x3xT")
    assert "4 cases" in say("sweep", *words, "--dry-run").words
    assert say("sweep", *words, "--duration", "10ms", "--launches", "1").status == 0
    rows = json.loads(Path("swept/results.json").read_text())["rows"]
    assert sorted((row["batch"], row["shape.T"]) for row in rows) == [
        (1, 4), (1, 8), (2, 4), (2, 8),
    ]  # fmt: skip
    words = ("--axis", "shape.x=2x3x4", "-o", "whole", "--duration", "10ms")
    say("sweep", "net.onnx", *words, status=0)
    [tensor] = say("runs", "show", "last", "--json").json["run"]["inputs"]
    assert tensor["shape"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--axis", "shape.x=2xx4"), "shape.x = 2xx4 is not a shape"),
        (("--shape", "x:1x3xK"), "'K'"),
        (("--preset", "depht"), "--preset depth"),
        (("--batch", "many"), "--batch"),
        (("--inputs", "gone.npz"), "there is no file"),
        (("--batch", "1", "--exclude", "batch=1"), "are excluded"),
        (("--resume", "swept"), "--resume cannot be combined"),
        (("--resume", "swept", "--dry-run"), "--resume has no dry run"),
        (("m.yaml",), "m.yaml"),
        (("m.toml", "--preset", "depth"), "give only one matrix file or preset"),
    ],
)
def test_a_sweep_that_cannot_be_meant_is_refused_before_it_begins(
    words: tuple[str, ...], expected: str, say: Say
) -> None:
    identity(Path("net.onnx"), ("x", TensorProto.FLOAT, ["N", 3, "T"]))
    Path("m.toml").write_text('models = ["net.onnx"]\n')
    Path("m.yaml").write_text("- net.onnx\n")
    assert expected in say("sweep", "net.onnx", *words, "-o", "swept", status=2).words
    assert not Path("swept").exists()
