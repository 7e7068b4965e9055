"""Facts have names: what is written and read stands in the register, and somebody fills it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from gpu_standin import plan_bytes
from models import tiny_model
from trtbench.analysis.findings import evidence as evidence_module
from trtbench.analysis.findings.evidence import Evidence
from trtbench.domain.keys import CONDITIONS, FACTS, GPU_SIGNS, MACHINE, Key, problem_of
from trtbench.domain.result import Run, RunRecord
from trtbench.store.directory import read_run

SOURCE = Path(__file__).resolve().parents[1] / "src" / "trtbench"
STANDIN = Path(__file__).resolve().parent / "standin_gpu"
RULES = sorted((SOURCE / "analysis" / "findings").glob("rules_*.py"))
READ = re.compile(r"\.(fact|flag|text|condition)\(\"(\w+)\"\)")


def test_every_key_is_written_by_the_module_that_the_register_names() -> None:
    for register in (FACTS, CONDITIONS, MACHINE, GPU_SIGNS):
        for name, key in register.items():
            path = SOURCE.joinpath(*key.filled_by.split(".")).with_suffix(".py")
            assert path.is_file(), f"{name}: there is no {key.filled_by}"
            words = {
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            assert name in words, f"{key.filled_by} does not write {name}"


def test_rules_read_only_what_somebody_fills() -> None:
    known = {**MACHINE, **FACTS, **CONDITIONS}
    for path in (*RULES, Path(evidence_module.__file__)):
        for _, name in READ.findall(path.read_text()):
            assert name in known, f"{path.name} reads {name}, which nobody fills"


def test_every_field_of_the_evidence_is_filled_in_src_and_read_by_a_rule() -> None:
    """A field that only tests fill is a rule that never fires."""
    source = {
        path: path.read_text()
        for path in SOURCE.rglob("*.py")
        if not path.name.startswith("rules_")
    }
    rules = "".join(path.read_text() for path in RULES)
    for name in _names_of_evidence():
        told = re.compile(rf"\b{name}=")
        assert any(told.search(text) for text in source.values()), f"nobody fills {name}"
    for name in (each.name for each in fields(Evidence)):
        used = rf"\be\.{name}\b"
        assert re.search(used, rules) or name in ("segments", "times", "record"), name


def _names_of_evidence() -> set[str]:
    names = {each.name for each in fields(Evidence)}
    for value in vars(evidence_module).values():
        own = getattr(value, "__module__", "") == evidence_module.__name__
        if own and isinstance(value, type) and issubclass(value, msgspec.Struct):
            names |= {each.name for each in msgspec.structs.fields(value)}
    return names


def problems_of(run: Run) -> list[str]:
    record = run.record
    assert isinstance(record, RunRecord)
    signs = {f"gpu{n}_{name}": key for n in range(8) for name, key in GPU_SIGNS.items()}
    conditions = {name: fact.value for name, fact in record.conditions.items()}
    told: list[tuple[dict[str, Key], dict[str, object]]] = [
        (FACTS, dict(record.facts)),
        (CONDITIONS, dict(conditions)),
        ({**MACHINE, **signs}, dict(record.environment.extra)),
    ]
    found = (
        problem_of(name, value, register)
        for register, values in told
        for name, value in values.items()
    )
    return [problem for problem in found if problem]


def bench(folder: Path, *words: str, path: str | None = None) -> Run:
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", "bench", *words, "--iterations", "20",
         "--warmup", "10ms", "--no-until-steady", "--store", "store", "-o", "run"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return read_run(folder / "run")


def test_a_run_on_onnx_runtime_has_only_facts_of_the_register(tmp_path: Path) -> None:
    tiny_model(tmp_path / "m.onnx")
    assert problems_of(bench(tmp_path, "m.onnx", "--batch", "2")) == []


@pytest.mark.parametrize("flags", [(), ("--protocol", "server", "--rate", "50/s")])
def test_a_run_on_a_gpu_has_only_facts_of_the_register(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "m.engine").write_bytes(plan_bytes())
    run = bench(tmp_path, "m.engine", "-r", "tensorrt", "--batch", "4", *flags, path=str(STANDIN))
    assert problems_of(run) == []
    assert run.record.facts["executes_engine"] is True


def test_a_run_through_trtexec_has_only_facts_of_the_register(
    trtexec: object, tmp_path: Path
) -> None:
    engine = trtexec.engine()  # type: ignore[attr-defined]
    run = bench(tmp_path, str(engine), "-r", "trtexec")
    assert problems_of(run) == []


def test_a_wrong_kind_and_an_unknown_name_are_told() -> None:
    assert problem_of("flops", 3.0, FACTS) is None
    assert problem_of("flops", None, FACTS) is None
    assert problem_of("flops", "many", FACTS) == "flops is no number: 'many'"
    assert problem_of("gpu_index", True, FACTS) == "gpu_index is no whole: True"
    assert problem_of("flpos", 3.0, FACTS) == "flpos is not in the register"
    assert problem_of("mine.tiles", 3.0, FACTS) is None
