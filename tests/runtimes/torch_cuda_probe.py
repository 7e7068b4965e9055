"""Tries sessions of PyTorch on a GPU: ``python torch_cuda_probe.py SOURCE FOLDER gpu|standin``.

Prints one JSON document, as ``torch_probe.py`` does; on a machine without a GPU ``null``, unless
``torch_cuda_standin.py`` takes its place.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch_files
from torch_probe import outcome

STEPS = 4
SHAPE = (2, 3, 8, 8)
NETS = """
from nets import *

class Counting(Net):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return super().forward(x) + self.calls

class Endless(Net):
    def forward(self, x):
        return super().forward(x) * 0 + float("inf")

def make_counting(): return Counting()
def make_endless(): return Endless()
"""


def spec_of(factory: str, **changes: Any) -> Any:
    from trtbench.core.spec import ModelRef, RunSpec

    options = {"factory": f"cuda_nets:{factory}", **changes.pop("options", {})}
    given: dict[str, Any] = {
        "model": ModelRef(path="weights.pt", format="torch"), "runtime": "torch",
        "shapes": {"x": SHAPE}, "options": options, "cuda_graph": "auto",
    }  # fmt: skip
    return RunSpec(**{**given, **changes})


def measured(factory: str, *, filled: list[int], **changes: Any) -> dict[str, Any]:
    """Run some queries as a measurement does; tells them, and what the session says of itself."""
    import numpy as np

    from trtbench.runtimes.torch import open_session

    session: Any = open_session(spec_of(factory, **changes))
    filled.clear()
    data = np.random.default_rng(0).random(SHAPE, dtype=np.float32)
    session.bind({"x": data.astype(session.inputs[0].dtype)})
    session.first()
    early = session.burst(size=2, lead=1)
    step = session.step()
    for _ in range(STEPS):
        step()
        session.spans.take()
    session.spans.drain()
    columns = session.spans.columns()
    per_query, enqueue = session.burst(size=4, lead=2)()
    outputs = session.fetch()
    return {
        "early": early is None,
        "columns": {name: len(column) for name, column in columns.items()},
        "positive": all((columns[name] > 0).all() for name in ("gpu", "enqueue")),
        "overlapping": session.spans.overlapping,
        "burst": per_query > 0 and enqueue > 0,
        "outputs": {n: [str(v.dtype), list(v.shape)] for n, v in outputs.items()},
        "first": float(np.asarray(outputs["output0"], np.float64).ravel()[0]),
        "conditions": {name: fact.value for name, fact in session.conditions.items()},
        "evidence": dict(session.evidence),
        "notes": list(session.notes),
        "filled": list(filled),
    }


def on_processor(factory: str) -> float:
    """Tell the first number that the same model gives on the processor."""
    import numpy as np

    from trtbench.runtimes.torch import open_session

    session = open_session(spec_of(factory, device="cpu"))
    session.bind({"x": np.random.default_rng(0).random(SHAPE, dtype=np.float32)})
    return float(session.fetch()["output0"].ravel()[0])


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "graph": ("make", {}),
    "eager": ("make", {"cuda_graph": "off"}),
    "bare": ("make", {"transfers": False, "spin_wait": True}),
    "gpu": ("make", {"protocol": "gpu"}),
    "coldl2": ("make", {"protocol": "coldl2"}),
    "half": ("make", {"options": {"half": "on"}}),
    "tf32": ("make", {"precision": "tf32"}),
    "channels_last": ("make", {"options": {"channels_last": "on"}}),
    "nested": ("make_nested", {}),
    "nested_eager": ("make_nested", {"cuda_graph": "off"}),
    "endless": ("make_endless", {}),
    "asking": ("make_branching", {}),
    "asking_on": ("make_branching", {"cuda_graph": "on"}),
    "counting": ("make_counting", {}),
    "counting_on": ("make_counting", {"cuda_graph": "on"}),
    "picky": ("make_picky", {"options": {"half": "on"}}),
    "no_such_device": ("make", {"device": "cuda:99"}),
}
REAL: dict[str, tuple[str, dict[str, Any]]] = {
    "compiled": ("make", {"options": {"compile": "reduce-overhead"}, "cuda_graph": "off"}),
    "autocast": ("make", {"precision": "fp16"}),
}
"""What only PyTorch for a GPU can do."""


def layers() -> dict[str, Any]:
    """Time modules by the kernels that they start."""
    import numpy as np

    from trtbench.runtimes.torch import open_session

    session = open_session(spec_of("make"))
    session.bind({"x": np.ones(SHAPE, np.float32)})
    session.first()
    return {"names": [each.name for each in session.profile_layers().layers]}


def main(source: str, folder: str, where: str) -> None:
    sys.path.insert(0, source)
    os.chdir(folder)
    sys.path.insert(0, folder)
    Path("nets.py").write_text(torch_files.NETS)
    Path("cuda_nets.py").write_text(NETS)
    import cuda_nets  # type: ignore[import-not-found]
    import torch

    torch.manual_seed(0)
    torch.save(cuda_nets.Net().state_dict(), "weights.pt")
    filled: list[int] = []
    cases = {**CASES, **REAL}
    if where == "standin":
        import torch_cuda_standin

        from trtbench.runtimes import torch as runtime

        torch_like = torch_cuda_standin.install()
        runtime.import_torch, filled, cases = lambda: torch_like, torch_like.filled, CASES
    elif not torch.cuda.is_available():
        print("null")
        return
    found: dict[str, Any] = {"where": where, "processor": on_processor("make")}
    for name, (factory, changes) in cases.items():
        found[name] = outcome(lambda f=factory, c=changes: measured(f, filled=filled, **c))
    if where == "gpu":
        found["layers"] = outcome(layers)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
