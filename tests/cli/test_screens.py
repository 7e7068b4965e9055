"""What verbs print on real terminals of 60 to 200 columns."""

import re
from pathlib import Path

import msgspec
import pytest
from layer_sets import write_engine

import leftovers
from models import conv_model
from terminal import WHOLE, WIDTHS, assert_honest, screens
from trtbench.analysis.check import Checked
from trtbench.cli import run as run_command
from trtbench.core.codec import json_from_value
from trtbench.core.results import Localization
from trtbench.report.document import Document
from trtbench.report.listings import document_from_diagnosis
from trtbench.report.renderers.json import json_content
from trtbench.report.sections.accuracy import document_from_check, document_from_localized
from trtbench.workflows.doctor import diagnose

pytestmark = pytest.mark.xdist_group("screens")

LONG = "a_network_with_quite_a_long_name-and-more.onnx"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a store in which it was measured twice."""
    folder = tmp_path_factory.mktemp("screens")
    conv_model(folder / LONG)
    for _ in range(2):
        status = run_command(
            ["bench", str(folder / LONG), "--batch", "2", "--iterations", "40", "--warmup", "20ms",
             "--no-until-steady", "--launches", "2", "--store", str(folder / "runs")]
        )  # fmt: skip
        assert status == 0
    return folder


VERBS = {
    "run": ["runs", "show", "last", "--store", "runs"],
    "runs": ["runs", "--store", "runs"],
    "compare": ["compare", "last", "last", "--store", "runs"],
    "inspect": ["inspect", LONG, "--layers"],
    "doctor": ["DRAW", "doctor.document.json"],
    "sweep": ["sweep", "--resume", "swept", "--format", "none", "--where", "median<10s", "--store",
              "runs"],
    "sweep plan": ["sweep", LONG, "--batch", "1,2", "--precision", "fp32,int8", "--dry-run"],
    "gate": ["gate", "last", "--metric", "median<10s", "--metric", "p99.9<1ns", "-o", "gated",
             "--store", "runs"],
    "history": ["history", "--least", "1", "--store", "runs"],
    "import": ["import", "set", "--dry-run", "--store", "runs"],
    "layers": ["profile", "int8.profile.json"],
    "diff": ["diff", "fp16.profile.json", "int8.profile.json"],
    "why": ["diff", "--why", "fp16.profile.json", "int8.profile.json"],
    "check": ["DRAW", "check.document.json"],
    "localize": ["DRAW", "localize.document.json"],
}  # fmt: skip


def write(document: Document, path: Path) -> None:
    path.write_bytes(json_from_value(json_content(document)))


def make_check(folder: Path) -> None:
    model, other = str(folder / LONG), str(folder / f"int8_of_{LONG}")
    words = ["--precision", "int8", "--calibration", "random", "--items", "8", "-o", other]
    assert run_command(["quantize", model, *words]) == 0
    words = ["--random", "8", "--store", str(folder / "runs"), "-o", str(folder / "out")]
    assert run_command(["check", model, other, *words]) == 0
    checked = msgspec.json.decode((folder / "out" / "check.json").read_bytes(), type=Checked)
    write(document_from_check(checked), folder / "check.document.json")
    words += ["--repair", "--where", "sqnr>=20dB"]
    assert run_command(["localize", model, other, *words]) == 0
    found = msgspec.json.decode((folder / "out" / "localize.json").read_bytes(), type=Localization)
    write(document_from_localized(found), folder / "localize.document.json")


@pytest.fixture(scope="module")
def drawn(measured: Path) -> dict[str, dict[int, list[str]]]:
    words = ["--batch", "1,2", "--duration", "20ms", "--launches", "2", "--format", "none"]
    words += ["--axis", "warmup=5ms", "--axis", "until_steady=false"]
    place = ["-o", str(measured / "swept"), "--store", str(measured / "runs")]
    assert run_command(["sweep", str(measured / LONG), *words, *place]) == 0
    make_check(measured)
    write(document_from_diagnosis(diagnose()), measured / "doctor.document.json")
    leftovers.run_set(measured / "set")
    for name in ("fp16", "int8"):
        write_engine(measured, name)
    pages = screens(list(VERBS.values()), cwd=measured)
    return dict(zip(VERBS, pages, strict=True))


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("verb", VERBS)
def test_no_screen_is_too_wide_or_cuts_a_number(
    drawn: dict[str, dict[int, list[str]]], verb: str, columns: int
) -> None:
    assert len(drawn[verb][columns]) >= 2
    assert_honest(drawn[verb][columns], drawn[verb][WHOLE], columns=columns)


@pytest.mark.parametrize("columns", WIDTHS)
def test_columns_of_a_run_are_shown_or_named(drawn: dict[str, dict[int, list[str]]], columns: int):
    lines = drawn["run"][columns]
    assert re.search(r"Host +[\d.]+ [µm]s", "\n".join(lines))
    head = next(line for line in lines if line.startswith("Time"))
    pairs = zip(lines, [*lines[1:], ""], strict=True)  # the list may go on in the next line
    left_out = "".join(
        f"{line} {after if line.endswith(',') else ''}"
        for line, after in pairs
        if line.startswith("hidden, terminal too narrow:")
    )
    for title in ("Median", "Mean", "Std", "Min", "p90", "p95", "p99", "Max", "Samples"):
        assert (title in head.split()) != (title in left_out), title
    assert left_out or columns > 60
    assert not left_out or columns < 200
