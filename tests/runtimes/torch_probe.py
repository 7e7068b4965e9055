"""Tries models, sessions and exports where PyTorch is: ``python torch_probe.py SOURCE FOLDER``.

Prints one JSON document: for each case what came of it, or the error in words. One process for
all cases, because importing PyTorch takes longer than any of them.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_files import prepare

# Sources


def load(source: str, **options: Any) -> dict[str, Any]:
    from trtbench.models.torch_models import load_model

    found = load_model(source, folder=str(Path.cwd()), **options)
    inputs = [[tensor.name, tensor.dtype, list(tensor.shape)] for tensor in found.inputs]
    return {
        "kind": found.kind,
        "inputs": inputs,
        "suggested": found.suggested,
        "training": bool(getattr(found.module, "training", False)),
        "notes": list(found.notes),
    }


LOADED: dict[str, tuple[str, dict[str, Any]]] = {
    "torchvision": ("torchvision:netone", {}),
    "torchvision_without_a_size": ("torchvision:nettwo", {}),
    "torchvision_unknown": ("torchvision:netwo", {}),
    "torchvision_own_weights": ("torchvision:netone", {"weights": "weights.pt"}),
    "torchvision_weights_are_none": ("torchvision:netone", {"weights": "plain.pt"}),
    "torchvision_weights_do_not_fit": ("torchvision:netone", {"weights": "wide.pt"}),
    "timm": ("timm:net_small", {"weights": "none"}),
    "no_such_zoo": ("torchvison:resnet18", {}),
    "no_such_file": ("gone.pt", {}),
    "state_dict": ("weights.pt", {"factory": "nets:make"}),
    "state_dict_nested": ("nested.pt", {"factory": "nets:make"}),
    "state_dict_alone": ("weights.pt", {}),
    "factory_without_a_function": ("weights.pt", {"factory": "nets"}),
    "factory_not_there": ("weights.pt", {"factory": "nets:gone"}),
    "module_untrusted": ("module.pt", {}),
    "module": ("module.pt", {"trust": True}),
    "checkpoint": ("checkpoint.pt", {"trust": True}),
    "no_module": ("odd.pt", {"trust": True}),
    "damaged": ("damaged.pt", {"trust": True}),
    "torchscript": ("net.ts", {}),
    "program_untrusted": ("net.pt2", {}),
    "program": ("net.pt2", {"trust": True}),
    "timm_own_weights": ("timm:net_small", {"weights": "weights.pt"}),
    "ultralytics": ("ultralytics:yolov8n", {"trust": True}),
    "ultralytics_network": ("ultralytics:yolov8n", {"weights": "none"}),
    "ultralytics_pickle": ("yolo.pt", {"trust": True}),
    "hub_weights": ("torch.hub:hub/by_weights", {"trust": True}),
    "hub_backbone": ("torch.hub:hub/by_weights", {"trust": True, "weights": "none"}),
    "hub_dinov2": ("torch.hub:hub/like_dinov2", {"trust": True, "weights": "none"}),
    "hub_dinov2_offline": ("torch.hub:hub/like_dinov2", {"trust": True}),
    "hub_random": ("torch.hub:hub/by_nothing", {"trust": True, "weights": "none"}),
    "hub_offline": ("torch.hub:nobody/nowhere/net", {"trust": True, "weights": "none"}),
    "hub_offline_tag": ("torch.hub:nobody/nowhere:v1/net", {"trust": True}),
    "hub_pretrained": ("torch.hub:hub/by_pretrained", {"trust": True, "weights": "none"}),
    "hub_nothing": ("torch.hub:hub/by_nothing", {"trust": True}),
    "hub_untrusted": ("torch.hub:hub/by_nothing", {}),
    "hub_without_a_model": ("torch.hub:hub", {"trust": True}),
    "hub_unknown": ("torch.hub:hub/by_noting", {"trust": True}),
    "hub_lacking": ("torch.hub:lacking/by_nothing", {"trust": True}),
    "state_dict_wrapped": ("wrapped.pt", {"factory": "nets:make"}),
    "factory_with_arguments": ("weights.pt", {"factory": "nets:make_of"}),
    "factory_that_is_broken": ("weights.pt", {"factory": "broken_nets:make"}),
    "needs_code": ("needs_code.pt", {"trust": True}),
    "cut_script": ("cut.ts", {}),
}


# Sessions


def run_session(factory: str, **changes: Any) -> dict[str, Any]:
    import numpy as np

    from trtbench.core.spec import ModelRef, RunSpec
    from trtbench.runtimes.torch import open_session

    options = {**({"factory": f"nets:{factory}"} if factory else {}), **changes.pop("options", {})}
    given = {
        "model": ModelRef(path=changes.pop("path", "weights.pt"), format="torch"),
        "runtime": "torch",
        "device": "cpu",
        "shapes": {"x": (2, 3, 16, 16)},
    }
    session = open_session(RunSpec(**{**given, "options": options, **changes}))
    data = np.random.default_rng(0).random((2, 3, 16, 16), dtype=np.float32)
    session.bind({"x": data.astype(session.inputs[0].dtype)})
    session.first()
    session.step()()
    outputs = session.fetch()
    session.close()
    return {
        "outputs": {n: [str(v.dtype), list(v.shape)] for n, v in outputs.items()},
        "told": [[tensor.name, tensor.dtype] for tensor in session.outputs],
        "conditions": {name: fact.value for name, fact in session.conditions.items()},
        "evidence": dict(session.evidence),
        "notes": list(session.notes),
        "passive": os.environ.get("OMP_WAIT_POLICY"),
        "first": float(np.asarray(next(iter(outputs.values())), np.float64).ravel()[0]),
    }


def drawn_ids(path: str) -> dict[str, Any]:
    """Draw the ids that a run of a model with few words gets, and run it on them."""
    from trtbench.core.spec import ModelRef, RunSpec
    from trtbench.runtimes._session import resolve_inputs
    from trtbench.runtimes.torch import open_session

    spec = RunSpec(
        model=ModelRef(path=path, format="torch"),
        runtime="torch",
        device="cpu",
        shapes={"ids": (2, 64)},
        options={"dtypes": "int64", "trust": "on"},
    )
    session = open_session(spec)
    _, arrays, _ = resolve_inputs(session.inputs, spec, limits=session.index_limits)
    session.bind(arrays)
    session.first()
    return {"highest": int(arrays["ids"].max())}


SESSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "session": ("make", {"threads": 1}),
    "session_autocast": ("make", {"precision": "bf16"}),
    "session_channels_last": ("make", {"options": {"channels_last": "on"}}),
    "session_half": ("make", {"options": {"half": "on"}}),
    "session_nested": ("make_nested", {}),
    "session_words": ("make_words", {}),
    "session_without_a_gpu": ("make", {"device": "cuda:99"}),
    "session_on_what_there_is": ("make", {"device": None}),
    "session_switch_unclear": ("make", {"options": {"half": "yes"}}),
    "session_picky": ("make_picky", {"options": {"half": "on"}}),
    "session_sixteen": ("make_sixteen", {}),
    "session_passive": ("make", {"options": {"waiting": "passive"}}),
    "session_script": ("", {"path": "net.ts"}),
    "session_frozen": ("", {"path": "frozen.ts"}),
    "session_disabled": ("make_disabled", {"options": {"compile": "default"}}),
    "session_program": ("", {"path": "net.pt2", "options": {"trust": "on"}}),
    "session_quantized": ("", {"path": "quantized.pt", "options": {"trust": "on"}}),
}


# Exports


def run_export(
    source: str, *inputs: tuple[str | None, tuple[int, ...], str | None], **more: Any
) -> dict[str, Any]:
    import numpy as np
    import onnx

    from trtbench.convert.export import INPUTS, OUTPUTS, export
    from trtbench.core.jobs import Stage
    from trtbench.core.results import ExportSpec, InputShape

    folder = Path(f"export-{len(list(Path.cwd().glob('export-*')))}")
    folder.mkdir()
    shapes = tuple(InputShape(name=n, shape=s, dtype=d) for n, s, d in inputs)
    output, here = str(folder / "net.onnx"), str(Path.cwd())
    spec = ExportSpec(source=source, output=output, inputs=shapes, folder=here, **more)
    stage = Stage()
    done = export(spec, folder=folder, stage=stage)
    graph = onnx.load(folder / "net.onnx", load_external_data=False)
    with np.load(folder / INPUTS) as fed, np.load(folder / OUTPUTS) as gave:
        kept = [sorted(name.rpartition("/")[2] for name in each.files) for each in (fed, gave)]
    return {
        "inputs": [each.name for each in graph.graph.input],
        "outputs": [each.name for each in graph.graph.output],
        "opset": {e.domain: e.version for e in graph.opset_import}[""],
        "exporter": done.exporter,
        "kind": done.kind,
        "notes": list(done.notes),
        "stages": stage.begun,
        "kept": kept,
    }


IMAGE = (None, (-1, 3, 16, 16), None)
MADE = {"trust": True}
EXPORTS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "export": ("weights.pt", (IMAGE,), {"factory": "nets:make"}),
    "export_legacy": ("weights.pt", (IMAGE,), {"factory": "nets:make", "exporter": "legacy"}),
    "export_pair": ("weights.pt", (IMAGE,), {"factory": "nets:make_pair"}),
    "export_words": ("weights.pt", (IMAGE,), {"factory": "nets:make_words"}),
    "export_without_a_shape": ("weights.pt", (), {"factory": "nets:make"}),
    "export_wrong_shape": ("weights.pt", ((None, (1, 1), None),), {"factory": "nets:make"}),
    "export_by_name": ("torchvision:netone", (), {"weights": "none"}),
    "export_masked": (
        "masked.pt",
        (("mask", (-1, 4), "bool"), ("x", (-1, 4), "float64")),
        {"factory": "nets:make_masked", "exporter": "legacy", **MADE},
    ),
    "export_few_words": ("talk.pt", (("ids", (-1, 8), "int64"),), MADE),
    "export_unknown_type": ("module.pt", ((None, (1, 3, 8, 8), "float7"),), MADE),
    "export_program": ("net.pt2", (), MADE),
    "export_program_half": ("net.pt2", (), {"half": True, **MADE}),
    "export_torchscript": ("net.ts", (IMAGE,), {}),
    "export_named": ("weights.pt", (IMAGE,), {"factory": "nets:make_named"}),
    "export_by_keyword": (
        "weights.pt",
        (("mask", (-1, 1, 16, 16), None), ("x", (-1, 3, 16, 16), None)),
        {"factory": "nets:make_named", "exporter": "legacy"},
    ),
    "export_half": ("weights.pt", (IMAGE,), {"factory": "nets:make", "half": True}),
    "export_open_sides": (
        "weights.pt", ((None, (-1, 3, -1, -1), None),),
        {"factory": "nets:make", "exporter": "legacy"},
    ),
    "export_sixteen": ("weights.pt", ((None, (2, 3, 16, 16), None),),
                       {"factory": "nets:make_sixteen"}),
    "export_strict": ("weights.pt", (IMAGE,), {"factory": "nets:make_strict"}),
    "export_branching": ("weights.pt", (IMAGE,), {"factory": "nets:make_branching"}),
    "export_other_opset": ("weights.pt", (IMAGE,), {"factory": "nets:make", "opset": 7}),
    "export_without_an_example": ("no_example.pt2", (), MADE),
    "export_legacy_opset": (
        "weights.pt", (IMAGE,), {"factory": "nets:make", "exporter": "legacy", "opset": 99}
    ),
}  # fmt: skip


def outcome(make: Callable[[], Any]) -> dict[str, Any]:
    from trtbench.core.errors import TrtbenchError

    try:
        return {"ok": make()}
    except TrtbenchError as problem:
        kind = type(problem).__name__
        facts = {name: str(value) for name, value in problem.facts.items()}
        return {"error": kind, "message": problem.message, "facts": facts, "fix": problem.fix}


def main(source: str, folder: str) -> None:
    os.environ |= {"https_proxy": "http://127.0.0.1:9", "TORCH_HOME": f"{folder}/home"}  # offline
    sys.path.insert(0, source)
    os.chdir(folder)
    prepare()
    found = {}
    for name, (what, options) in LOADED.items():
        found[name] = outcome(lambda what=what, options=options: load(what, **options))
    for name, (factory, changes) in SESSIONS.items():
        found[name] = outcome(lambda f=factory, c=changes: run_session(f, **c))
    for path in ("talk.pt", "talk.ts", "talk_quantized.pt"):
        found[path] = outcome(lambda p=path: drawn_ids(p))
    for name, (what, inputs, more) in EXPORTS.items():
        found[name] = outcome(lambda w=what, i=inputs, m=more: run_export(w, *i, **m))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
