"""Small networks with a fault planted in one layer, for the type that cannot bear it."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from planted_kinds import Drawing
from trtbench.convert.calibration import save_feeds
from trtbench.convert.quantize import quantize
from trtbench.core.jobs import Stage
from trtbench.core.results import CalibrationRef, QuantSpec
from trtbench.models.identity import model_ref

WIDTH = 16


def network(path: Path, weights: list[np.ndarray]) -> Path:
    """Products with a ReLU after each but the last."""
    net, at = Drawing(np.random.default_rng(0)), "x"
    for place, values in enumerate(weights):
        name = f"fc{place}"
        at = net.node("MatMul", at, net.stored(f"{name}.weight", values), name=name)
        if place < len(weights) - 1:
            at = net.node("Relu", at, name=f"{name}.relu")
    return net.saved(path, (WIDTH,))


def plain_weights(rng: np.random.Generator, layers: int, *, classes: int = 8) -> list[np.ndarray]:
    widths = [WIDTH] * layers + [classes]
    return [rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in pairwise(widths)]


def overflowing(path: Path, *, layer: int, seed: int, layers: int = 8, factor: float = 4e4) -> Path:
    """A layer whose values go beyond FP16's 65504; the next one brings them back."""
    weights = plain_weights(np.random.default_rng(seed), layers)
    weights[layer] *= factor  # FP16 holds the weights themselves
    weights[layer + 1] /= factor
    return network(path, weights)


def with_outlier(path: Path, *, layer: int, seed: int, layers: int = 8) -> Path:
    """A layer with one large weight on a channel that is always zero.

    It changes nothing, but one scale for all weights of the layer leaves nothing of the others.
    """
    rng = np.random.default_rng(seed)
    weights = plain_weights(rng, layers)
    channel = int(rng.integers(WIDTH))
    weights[layer - 1][:, channel] = 0
    weights[layer][channel, int(rng.integers(weights[layer].shape[1]))] = 150
    return network(path, weights)


def int8_of(
    reference: Path,
    path: Path,
    *,
    per_channel: bool = True,
    keep: tuple[str, ...] = (),
    shape: tuple[int, ...] = (WIDTH,),
) -> Path:
    """Quantize with ONNX Runtime, in this process."""
    folder = path.parent / f"{path.stem}-quantizing"
    folder.mkdir()
    items = np.random.default_rng(9).normal(size=(64, *shape)).astype(np.float32)
    save_feeds(folder / "calibration.npz", [{"x": items}])
    sizes, file = {"items": 64, "batch": 64, "sha256": ""}, str(folder / "calibration.npz")
    calibration = CalibrationRef(source="normal", kind="arrays", file=file, **sizes)
    spec = QuantSpec(
        model=model_ref(reference), output=str(path), precision="int8", via="onnxruntime",
        method="minmax", per_channel=per_channel, keep=keep, calibration=calibration,
    )  # fmt: skip
    quantize(spec, folder=folder, stage=Stage())
    return path


def convolutions(path: Path, *, layers: int, seed: int) -> Path:
    """Convolutions with a batch norm and a ReLU behind each."""
    net, at = Drawing(np.random.default_rng(seed)), "x"
    for place in range(layers):
        arrays = {
            "w": net.rng.normal(0, 0.3, (3, 3, 3, 3)), "scale": net.rng.uniform(0.5, 2, 3),
            "bias": net.rng.normal(size=3), "mean": net.rng.normal(size=3),
            "var": net.rng.uniform(0.5, 2, 3),
        }  # fmt: skip
        weight, *norm = (net.stored(f"{key}{place}", values) for key, values in arrays.items())
        at = net.node("Conv", at, weight, name=f"conv{place}", pads=[1, 1, 1, 1])
        at = net.node("BatchNormalization", at, *norm, name=f"norm{place}")
        at = net.node("Relu", at, name=f"relu{place}")
    return net.saved(path, (3, 6, 6))


def fp8_of(reference: Path, path: Path, *, scale: float = 0.02) -> Path:
    """Put pairs of Q and DQ nodes to E4M3 before every product, as ModelOpt does."""
    model = onnx.version_converter.convert_version(onnx.load(reference), 19)
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.float32(scale), "scale"))
    graph.initializer.append(
        helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, [], b"\0", raw=True)
    )
    _round_inputs(graph, {name: ("scale", "zero") for node in graph.node for name in node.input})
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def read_in_int8(reference: Path, path: Path, *, shape: tuple[int, ...]) -> Path:
    """Put Q and DQ nodes before what products and convolutions read, and nowhere else."""
    import onnxruntime

    model = onnx.load(reference)
    graph = model.graph
    items = np.random.default_rng(9).normal(size=(64, *shape)).astype(np.float32)
    looked = onnx.ModelProto.FromString(model.SerializeToString())
    read = {node.input[0] for node in graph.node if node.op_type in WEIGHTED}
    looked.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in read - {"x"}
    )
    session = onnxruntime.InferenceSession(looked.SerializeToString())
    found = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"x": items}),
                     strict=True)) | {"x": items}  # fmt: skip
    graph.initializer.append(numpy_helper.from_array(np.int8(0), "zero"))
    scales = {}
    for name in sorted(read):
        scale = np.float32(np.abs(found[name]).max() / 127)
        graph.initializer.append(numpy_helper.from_array(scale, f"{name}.scale"))
        scales[name] = (f"{name}.scale", "zero")
    _round_inputs(graph, scales)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


WEIGHTED = ("MatMul", "Conv")


def _round_inputs(graph: onnx.GraphProto, scales: dict[str, tuple[str, str]]) -> None:
    """Put a pair of Q and DQ nodes before every input of products that has a scale."""
    nodes = []
    for node in graph.node:
        for index, name in enumerate(list(node.input) if node.op_type in WEIGHTED else ()):
            if name in scales:
                low, back = f"{node.name}.{index}.low", f"{node.name}.{index}.back"
                how = scales[name]
                nodes += [
                    helper.make_node("QuantizeLinear", [name, *how], [low], name=low),
                    helper.make_node("DequantizeLinear", [low, *how], [back], name=back),
                ]
                node.input[index] = back
        nodes.append(node)
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
