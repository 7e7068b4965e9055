"""Every runtime with every flag that names a property: refused, or the label is what ran.

What ran is looked up where the label cannot come from: in the outputs, the session's own objects,
the stand-in GPU's calls, and the command line that the stand-in for trtexec understood.
"""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import models
from gpu_standin import plan_bytes
from trtbench.analysis.findings.rules import contradictions
from trtbench.core.errors import TrtbenchError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.run import Environment, RunRecord, known_value, precision_of
from trtbench.core.spec import Length, RunSpec, Warmup
from trtbench.measure.model_facts import conditions_of_model, joined_conditions
from trtbench.models.identity import model_ref
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes import trtexec as trtexec_runtime
from trtbench.runtimes._loop import prepare
from trtbench.store.directory import entry_from_record

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "standin"))

from standin_options import Options

from waiting import printed

ASKED: list[dict[str, Any]] = [
    {"batch": 1},
    {"batch": 4},
    {"batch": 7},
    {"shapes": "two"},
    {"shapes": "two", "batch": 2},
    {"shapes": "two", "batch": 4},
    *({"precision": name, "batch": 1} for name in ("fp32", "tf32", "fp16", "bf16", "int8", "best")),
    *({"threads": count, "batch": 1} for count in (1, 2)),
    *({"protocol": name, "batch": 1} for name in ("serve", "pipeline", "first")),
    {"protocol": "gpu", "batch": 1, "cuda_graph": "on", "transfers": False},
    {"streams": 2, "batch": 1},
    {"streams": 2, "batch": 4, "protocol": "pipeline"},
    {"cuda_graph": "on", "batch": 1},
    {"cuda_graph": "auto", "batch": 1},
    {"transfers": False, "batch": 1},
    {"spin_wait": True, "batch": 1},
    {"profile_index": 1, "batch": 2},
    {"device": "cpu", "batch": 1},
    {"device": "cuda:0", "batch": 1},
    {"device": "cuda:9", "batch": 1},
    {"precision": "fp8", "batch": 1},
    {"gap_s": 0.001, "batch": 1},
    {"profile_index": 5, "batch": 1},
    {"options": {"imgsz": "16"}, "batch": 1},
    {"options": {"channels": "1"}, "batch": 1},
]

NO_LABELS = {
    "model", "runtime",  # told by their own
    "inputs", "warmup", "stop", "launches",  # how much is measured, and with what
    "rate_hz", "arrivals", "arrival_times_s",  # of the protocol server, which has its own tests
    "telemetry_s", "profile", "separate_profile_run",  # passes
    "lock_clocks", "extra_args",  # of the machine; of a program, held to its log
}  # fmt: skip
"""Fields of a spec that name no property of what a session runs."""

Ran = tuple[BenchOutcome, dict[str, object]]  # what a session reports, and what it was seen to do


def of_session(runtime: str, look: Callable[[Any], dict[str, object]]) -> Callable[..., Ran]:
    """Have a runtime in this process run once, and look at it."""

    def run(spec: RunSpec, folder: Path) -> Ran:
        module = RUNTIMES.load(runtime)
        ready = prepare(module.open_session, spec)
        try:
            outputs = ready.session.fetch()
            seen = {"batch": next(iter(outputs.values())).shape[0], **look(ready.session)}
            outcome = ready.outcome
            conditions = {**outcome.conditions, **ready.session.conditions}
            return outcome.having(conditions=conditions), seen
        finally:
            ready.session.close()

    return run


def of_onnxruntime(session: Any) -> dict[str, object]:
    options = session._session.get_session_options()
    return {"precision": "fp32", "threads": options.intra_op_num_threads or None, "streams": 1}


def of_tensorrt(session: Any) -> dict[str, object]:
    units = session._units
    graphs = {unit.launch is not None for unit in units}
    profiles = {unit.context.active_optimization_profile for unit in units}
    return {"streams": len(units), "cuda_graph": graphs.pop(), "profile_index": profiles.pop()}


def of_trtexec(spec: RunSpec, folder: Path) -> Ran:
    outcome, times = trtexec_runtime.bench(spec, folder=folder, stage=Stage())
    words = shlex.split(str(outcome.reported["command"]))
    options = Options(words[1:], major=10)
    shapes = list(options.shapes("--shapes").values())
    return outcome, {
        "batch": int(shapes[0].split("x")[0]) if shapes else 1,
        "streams": int(options.number("--infStreams", 1)),
        "transfers": times.h2d is not None,
        "cuda_graph": options.graph,
        "spin_wait": options.spin,
        "precision": None if options.has("--loadEngine") else allowed(options),
    }


def allowed(options: Options) -> str:
    """What the builder may compute in: TF32 is on unless it is told."""
    return options.precision.lower() + ("" if options.has("--noTF32") else "+tf32")


def record_of(spec: RunSpec, outcome: BenchOutcome) -> RunRecord:
    """Put a record together as a run of one launch does."""
    return RunRecord(
        id="walk",
        created="2026-01-01T00:00:00+00:00",
        spec=spec,
        environment=Environment(host="here", os="Linux"),
        inputs=outcome.inputs,
        outputs=outcome.outputs,
        conditions=joined_conditions(conditions_of_model(spec.model), outcome.conditions),
    )


def hold(spec: RunSpec, outcome: BenchOutcome, seen: dict[str, object]) -> None:
    """Hold every label of a run to what it was seen to do, and what was asked for to both."""
    record = record_of(spec, outcome)
    assert record.batch == seen["batch"]
    assert entry_from_record(record, path="").batch == seen["batch"]
    assert record.inputs[0].shape[0] == seen["batch"]
    precision = seen.pop("precision", None)
    named = precision_of(record)
    if named is not None:
        assert precision is not None, "a precision that nobody can know"
        types = str(precision).split("+")
        assert named in types or (named == "best" and {"fp16", "int8"} <= {*types})
    told = {what for what, _, _ in contradictions(record)}
    if spec.precision is not None and named != spec.precision:
        assert "precision" in told
    for key, value in seen.items():
        known = known_value(record.conditions.get(key))
        assert known in (None, value) or key == "batch", f"{key} is said to be {known}"
        asked = getattr(spec, key, None)
        asked = {"on": True, "off": False, "auto": None}.get(asked, asked)  # type: ignore[arg-type]
        if asked is not None and asked != value:
            fell_back = key == "cuda_graph" and asked is True
            assert key in told or fell_back, f"nobody says that {key} {asked} became {value}"


def walk(
    spec: RunSpec, run: Callable[..., Ran], two: dict[str, tuple[int, ...]], folder: Path
) -> list[dict[str, Any]]:
    """Try everything that can be asked for; gives what was not refused."""
    done = []
    for number, changes in enumerate(ASKED):
        settled = {key: two if value == "two" else value for key, value in changes.items()}
        asked, place = spec.having(**settled), folder / str(number)
        place.mkdir()
        try:
            outcome, seen = run(asked, place)
        except TrtbenchError:  # refused before anything was measured
            continue
        hold(asked, outcome, seen)
        done.append(changes)
    return done


def spec_for(path: Path, runtime: str, **changes: Any) -> RunSpec:
    spec = RunSpec(
        model=model_ref(path),
        runtime=runtime,
        warmup=Warmup(floor=Length(seconds=0.01), until_steady=False),
        stop=Length(seconds=0.0, iterations=10),
    )
    return spec.having(**changes)


def test_every_property_is_walked() -> None:
    """A new field of a spec is walked, or listed as one that is no label."""
    fields, walked = set(RunSpec.__struct_fields__), {name for each in ASKED for name in each}
    assert walked <= fields
    assert fields - walked == NO_LABELS


def test_onnxruntime(tmp_path: Path) -> None:
    spec = spec_for(models.conv_model(tmp_path / "net.onnx"), "onnxruntime")
    run = of_session("onnxruntime", of_onnxruntime)
    done = walk(spec, run, {"image": (2, 3, 16, 16)}, tmp_path)
    assert {"batch": 7} in done
    assert {"threads": 2, "batch": 1} in done
    assert not [each for each in done if "precision" in each], "the file's types are its precision"


@pytest.mark.parametrize("runtime", ["tensorrt", "tensorrt-rtx"])
def test_tensorrt(runtime: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue("gpu" if runtime == "tensorrt" else "rtx")
    path = tmp_path / "net.engine"
    path.write_bytes(plan_bytes(magic=b"ftrt" if runtime == "tensorrt" else b"vtrt"))
    run = of_session(runtime, of_tensorrt)
    done = walk(spec_for(path, runtime), run, {"x": (2, 8)}, tmp_path)
    assert {"batch": 7} in done
    assert {"streams": 2, "batch": 4, "protocol": "pipeline"} in done
    assert {"cuda_graph": "on", "batch": 1} in done


@pytest.mark.parametrize("kind", ["engine", "onnx"])
def test_trtexec(kind: str, trtexec: Any, tmp_path: Path) -> None:
    path = trtexec.engine() if kind == "engine" else models.conv_model(tmp_path / "net.onnx")
    spec = spec_for(path, "trtexec", protocol="pipeline")
    two = {"input": (2, 3, 8, 8)} if kind == "engine" else {"image": (2, 3, 16, 16)}
    done = walk(spec, of_trtexec, two, tmp_path)
    assert {"batch": 7} in done
    assert {"spin_wait": True, "batch": 1} in done
    assert {"precision": "int8", "batch": 1} in done


def test_torch(torch_python: str, tmp_path: Path) -> None:
    here = Path(__file__).resolve()
    path = os.pathsep.join((str(here.parents[2] / "src"), str(here.parents[1]), str(here.parent)))
    printed([torch_python, str(here), str(tmp_path)], env={**os.environ, "PYTHONPATH": path})


def walk_torch(tmp_path: Path) -> None:
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(3, 4)

        def forward(self, images: Any) -> Any:
            return self.head(images.mean((2, 3)))

    def look(session: Any) -> dict[str, object]:
        """A linear layer gives the type that it was computed in."""
        types = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
        return {"threads": torch.get_num_threads(), "precision": types[session.outputs[0].dtype]}

    path = tmp_path / "net.ts"
    torch.jit.trace(Net().eval(), torch.rand(1, 3, 16, 16)).save(str(path))
    spec = spec_for(path, "torch", device="cpu", options={"imgsz": "16"})
    done = walk(spec, of_session("torch", look), {"images": (2, 3, 16, 16)}, tmp_path)
    assert {"batch": 7} in done
    assert {"precision": "bf16", "batch": 1} in done
    walk_scripts(Net, look, tmp_path)


def walk_scripts(make: Any, look: Callable[[Any], dict[str, object]], tmp_path: Path) -> None:
    """Scripts that were saved in another type, with weights inside."""
    import torch

    run = of_session("torch", look)
    for name, frozen in (("half", False), ("frozen", True)):
        script = torch.jit.trace(make().eval().half(), torch.rand(1, 3, 16, 16).half())
        path = tmp_path / f"{name}.ts"
        (torch.jit.freeze(script.eval()) if frozen else script).save(str(path))
        options = {"imgsz": "16", "dtypes": "float16"}
        spec = spec_for(path, "torch", device="cpu", batch=1, options=options)
        outcome, seen = run(spec, tmp_path)
        assert outcome.conditions["precision"].value == "fp16"
        hold(spec, outcome, seen)
        outcome, seen = run(spec.having(precision="fp32"), tmp_path)
        assert seen["precision"] == "fp16"
        hold(spec.having(precision="fp32"), outcome, seen)


CASTING = """
import torch
from torch import nn

class Casting(nn.Linear):
    "Computes in another type than its weights have, and gives out the first again."
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()

class Halves(nn.Module):
    "Has weights of one type, and computes with a copy of another."
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8, 8).half())
    def forward(self, x):
        return x @ self.weight.float()

def casting(): return Casting(8, 8)
def halves(): return Halves()
def plain(): return nn.Linear(8, 8)
"""


def walk_casts(tmp_path: Path) -> None:
    """What a module computes in is seen, not read off its weights; of what is compiled, it is."""
    import torch

    os.chdir(tmp_path)
    Path("casting.py").write_text(CASTING)
    sys.path.insert(0, str(tmp_path))
    import casting  # type: ignore[import-not-found]

    run = of_session("torch", lambda session: {})
    for name, precision, ran in (
        ("casting", None, "bf16"),
        ("halves", None, "fp32"),
        ("plain", None, "fp32"),
        ("plain", "bf16", "bf16"),
        ("casting", "fp32", "bf16"),
    ):
        path = Path(f"{name}.pt")
        torch.save(getattr(casting, name)().state_dict(), path)
        options = {"factory": f"casting:{name}"}
        spec = spec_for(
            path, "torch", device="cpu", options=options, precision=precision, shapes={"x": (2, 8)}
        )
        outcome, _ = run(spec, tmp_path)
        record = record_of(spec, outcome)
        assert precision_of(record) == ran, (name, precision)
        told = {what for what, _, _ in contradictions(record)}
        assert ("precision" in told) is (precision not in (None, ran))


if __name__ == "__main__":
    walk_torch(Path(sys.argv[1]))
    walk_casts(Path(sys.argv[1]))
