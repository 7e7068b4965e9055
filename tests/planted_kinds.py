"""Small networks of several kinds, with a fault planted in one layer of each.

Residual blocks, depthwise convolutions, branches that are joined, and a transformer's block whose
layer norms are taken apart. Each plants where values of one layer outgrow FP16, or where one weight
leaves INT8 nothing for the others; the function itself stays the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Fault = Literal["overflow", "outlier", "spike"]
FACTOR = 3e4


@dataclass
class Drawing:
    """Nodes and weights of a network as they are put together."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def node(self, op: str, *reads: str, name: str, **attributes: object) -> str:
        self.nodes.append(
            helper.make_node(op, list(reads), [f"{name}_out"], name=name, **attributes)
        )
        return f"{name}_out"

    def stored(self, name: str, values: object, kind: type = np.float32) -> str:
        self.weights[name] = np.asarray(values, kind)
        return name

    def conv(self, at: str, name: str, wide: int, to: int, *, side: int = 3, group: int = 1) -> str:
        shape = (to, wide // group, side, side)
        values = self.rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        weight = self.stored(f"{name}.w", values)
        pads = [side // 2] * 4
        return self.node("Conv", at, weight, name=name, pads=pads, group=group)

    def product(self, at: str, name: str, wide: int, to: int) -> str:
        values = self.rng.normal(0, np.sqrt(1 / wide), (wide, to))
        return self.node("MatMul", at, self.stored(f"{name}.w", values), name=name)

    def norm(self, at: str, name: str, wide: int) -> str:
        """A layer norm in nine nodes, as older exporters write it."""
        mean = self.node("ReduceMean", at, name=f"{name}.mean", axes=[-1])
        away = self.node("Sub", at, mean, name=f"{name}.away")
        two, little = self.stored("two", 2.0), self.stored("little", 1e-5)
        square = self.node("Pow", away, two, name=f"{name}.square")
        spread = self.node("ReduceMean", square, name=f"{name}.variance", axes=[-1])
        root = self.node("Sqrt", self.node("Add", spread, little, name=f"{name}.more"),
                         name=f"{name}.root")  # fmt: skip
        unit = self.node("Div", away, root, name=f"{name}.unit")
        gain = self.stored(f"{name}.gain", self.rng.uniform(0.5, 1.5, wide))
        bias = self.stored(f"{name}.bias", self.rng.normal(0, 0.1, wide))
        scaled = self.node("Mul", unit, gain, name=f"{name}.scaled")
        return self.node("Add", scaled, bias, name=f"{name}.moved")

    def saved(self, path: Path, shape: tuple[int, ...]) -> Path:
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes, "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(values, name) for name, values in self.weights.items()],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path

    def plant(self, fault: Fault, first: str, then: str, *, channels: slice | None = None) -> str:
        """Put the fault between two layers whose values go from one to the other, name the guilty.

        ``channels`` are the inputs of the second that come from the first, where not all do.
        """
        own, other = self.weights[f"{first}.w"], self.weights[f"{then}.w"]
        product = own.ndim == 2
        part = channels or slice(None)
        if fault == "overflow":
            own *= FACTOR
            if product:
                other[part] /= FACTOR
            else:
                other[:, part] /= FACTOR
            return first
        dead = int(self.rng.integers(own.shape[1] if product else own.shape[0]))
        place = dead + (part.start or 0)
        if fault == "spike":  # large values that nobody needs: who makes them is guilty
            (own.T if product else own)[dead] *= 3000
            (other if product else other.swapaxes(0, 1))[place] = 0
            return first
        if product:
            own[:, dead] = 0
            other[place, int(self.rng.integers(other.shape[1]))] = 150
        else:
            own[dead] = 0
            other[int(self.rng.integers(len(other))), place] = 150
        return then


def residual(path: Path, fault: Fault, seed: int) -> tuple[Path, str, tuple[int, ...]]:
    net = Drawing(np.random.default_rng(seed))
    at = net.conv("x", "stem", 3, 8)
    for block in range(3):
        inner = net.node("Relu", net.conv(at, f"b{block}.a", 8, 8), name=f"b{block}.relu")
        inner = net.conv(inner, f"b{block}.b", 8, 8)
        at = net.node("Relu", net.node("Add", at, inner, name=f"b{block}.sum"),
                      name=f"b{block}.end")  # fmt: skip
    at = net.node("GlobalAveragePool", at, name="pool")
    at = net.node("Flatten", at, name="flat")
    net.product(at, "head", 8, 5)
    guilty = net.plant(fault, f"b{seed % 3}.a", f"b{seed % 3}.b")
    return net.saved(path, (3, 6, 6)), guilty, (3, 6, 6)


def depthwise(path: Path, fault: Fault, seed: int) -> tuple[Path, str, tuple[int, ...]]:
    net = Drawing(np.random.default_rng(seed))
    at = net.node("Relu", net.conv("x", "stem", 3, 12), name="stem.relu")
    for block in range(3):
        at = net.node("Relu", net.conv(at, f"b{block}.wide", 12, 12, side=1), name=f"b{block}.r1")
        at = net.node("Relu", net.conv(at, f"b{block}.deep", 12, 12, group=12), name=f"b{block}.r2")
        at = net.conv(at, f"b{block}.narrow", 12, 12, side=1)
    block = seed % 3
    guilty = net.plant(fault, f"b{block}.deep", f"b{block}.narrow")
    return net.saved(path, (3, 6, 6)), guilty, (3, 6, 6)


def branches(path: Path, fault: Fault, seed: int) -> tuple[Path, str, tuple[int, ...]]:
    net = Drawing(np.random.default_rng(seed))
    at = net.node("Relu", net.conv("x", "stem", 3, 8), name="stem.relu")
    for block in range(2):
        sides = [
            net.node(
                "Relu", net.conv(at, f"b{block}.{side}", 8, 6, side=side), name=f"b{block}.r{side}"
            )
            for side in (1, 3, 5)
        ]
        at = net.node("Concat", *sides, name=f"b{block}.join", axis=1)
        at = net.conv(at, f"b{block}.mix", 18, 8, side=1)
    block, branch = seed % 2, seed % 3
    channels = slice(6 * branch, 6 * branch + 6)
    guilty = net.plant(fault, f"b{block}.{2 * branch + 1}", f"b{block}.mix", channels=channels)
    return net.saved(path, (3, 6, 6)), guilty, (3, 6, 6)


def transformer(path: Path, fault: Fault, seed: int) -> tuple[Path, str, tuple[int, ...]]:
    wide = 16
    net = Drawing(np.random.default_rng(seed))
    at = "x"
    for block in range(2):
        inner = net.norm(at, f"b{block}.n1", wide)
        q, k, v = (net.product(inner, f"b{block}.{each}", wide, wide) for each in "qkv")
        turned = net.node("Transpose", k, name=f"b{block}.turned", perm=[0, 2, 1])
        likeness = net.node("MatMul", q, turned, name=f"b{block}.like")
        likeness = net.node("Mul", likeness, net.stored("quarter", 0.25), name=f"b{block}.small")
        seen = net.node("MatMul", net.node("Softmax", likeness, name=f"b{block}.soft", axis=-1), v,
                        name=f"b{block}.seen")  # fmt: skip
        at = net.node("Add", at, net.product(seen, f"b{block}.out", wide, wide),
                      name=f"b{block}.sum1")  # fmt: skip
        inner = net.norm(at, f"b{block}.n2", wide)
        inner = net.node("Relu", net.product(inner, f"b{block}.up", wide, 32), name=f"b{block}.act")
        at = net.node("Add", at, net.product(inner, f"b{block}.down", 32, wide),
                      name=f"b{block}.sum2")  # fmt: skip
    net.norm(at, "last", wide)
    block = seed % 2
    pair = ("up", "down") if seed % 4 < 2 or fault != "overflow" else ("v", "out")
    guilty = net.plant(fault, *(f"b{block}.{each}" for each in pair))
    return net.saved(path, (6, wide)), guilty, (6, wide)


KINDS: dict[str, Callable[[Path, Fault, int], tuple[Path, str, tuple[int, ...]]]] = {
    "residual": residual, "depthwise": depthwise, "branches": branches, "transformer": transformer,
}  # fmt: skip
