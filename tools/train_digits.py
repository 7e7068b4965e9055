"""Train the demo's network and write its files: digits.onnx, digits.int8.onnx, .npz and .json.

Needs an environment of its own, because the package itself never needs PyTorch:

    python3.11 -m venv torchenv
    torchenv/bin/pip install torch==2.13.0 numpy onnx onnxruntime scikit-learn
    torchenv/bin/python tools/train_digits.py

About a minute on one core. The same seed, versions and processor give the same files.

Data: scikit-learn's digits, 1797 grey images of 8×8 pixels. Each is enlarged to 32×32 (bilinear)
and stored as uint8; the network takes that divided by 255. The labels repeat one sequence of about
130 digits fourteen times: the text of the form that people filled in. The split is cut where a form
begins (eight forms to train, two to calibrate, four held out), in the order of the data set, so no
form is on both sides of a cut. Nothing is chosen by looking at the held-out part: the number of
epochs is fixed, and the INT8 scales come from the calibration part, which has no other use.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from sklearn.datasets import load_digits
from torch import nn

FOLDER = Path(__file__).resolve().parents[1] / "src/trtbench/data/demo"
SIZE = 32
SPLIT = {"train": 1029, "calibration": 258, "held_out": 510}
"""Images per part, in the order of the data set; every part begins with a new form."""
EPOCHS = 15
BATCH = 64
SHIFT = 2
"""Training images move by up to so many pixels, so that the position of a digit is not learned."""
OPSET = 17
"""The newest that the ONNX parser of TensorRT 8.6 takes."""
LIBRARIES = ("torch", "numpy", "onnx", "onnxruntime", "scikit-learn")
LICENCE = (
    "The images are from the data set Optical Recognition of Handwritten Digits by E. Alpaydin "
    "and C. Kaynak (UCI Machine Learning Repository, doi:10.24432/C50P49), as distributed with "
    "scikit-learn, licensed CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). "
    "Changed here: enlarged from 8×8 to 32×32 pixels and scaled to 0..255."
)


class Part(NamedTuple):
    """Images [n, 1, 32, 32] as uint8, and their labels [n] as int64."""

    images: np.ndarray
    labels: np.ndarray


def load_parts() -> dict[str, Part]:
    """Return the enlarged images, cut into train, calibration and held_out in their own order."""
    digits = load_digits()
    small = torch.from_numpy(digits.images.astype(np.float32))[:, None] * (255 / 16)
    large = nn.functional.interpolate(small, size=(SIZE, SIZE), mode="bilinear")
    images = large.round().to(torch.uint8).numpy()
    labels = digits.target.astype(np.int64)
    if len(images) != sum(SPLIT.values()):
        raise SystemExit(f"expected {sum(SPLIT.values())} digits, found {len(images)}")
    cuts = np.cumsum(list(SPLIT.values()))[:-1]
    pieces = zip(np.split(images, cuts), np.split(labels, cuts), strict=True)
    return {name: Part(*piece) for name, piece in zip(SPLIT, pieces, strict=True)}


def floats_from_images(images: np.ndarray) -> np.ndarray:
    """Return what the network takes: float32 in 0..1."""
    return images.astype(np.float32) / np.float32(255)


def make_network() -> nn.Module:
    """Return the network: about 107 000 weights and 9.7 million multiply-adds per image."""

    def block(wide_in: int, wide_out: int, *, stride: int = 1) -> nn.Sequential:
        conv = nn.Conv2d(wide_in, wide_out, 3, stride=stride, padding=1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(wide_out), nn.ReLU())

    return nn.Sequential(
        block(1, 16),
        block(16, 32, stride=2),
        block(32, 32),
        block(32, 64, stride=2),
        block(64, 64),
        block(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def shifted(batch: torch.Tensor, *, generator: torch.Generator) -> torch.Tensor:
    """Move every image by a random number of pixels, with zeros coming in at the edge."""
    padded = nn.functional.pad(batch, [SHIFT] * 4)
    rows, columns = torch.randint(0, 2 * SHIFT + 1, (2, len(batch)), generator=generator).tolist()
    moved = [
        image[:, row : row + SIZE, column : column + SIZE]
        for image, row, column in zip(padded, rows, columns, strict=True)
    ]
    return torch.stack(moved)


def train(part: Part, *, seed: int, epochs: int) -> nn.Module:
    """Train for a fixed number of epochs, repeatably, and return the network ready to export."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # the order of additions depends on the number of threads
    generator = torch.Generator().manual_seed(seed)
    network = make_network().train()
    images, labels = torch.from_numpy(floats_from_images(part.images)), torch.tensor(part.labels)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    steps = epochs * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(epochs):
        total = 0.0
        for chosen in torch.randperm(len(images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            logits = network(shifted(images[chosen], generator=generator))
            loss = loss_of(logits, labels[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1:2d}  loss {total / len(images):.4f}")
    return network.eval()


def export(network: nn.Module, *, path: Path) -> None:
    """Write FP32 ONNX in one file.

    The exporter based on torch.export raises opset 17 to 18, hence the older one.
    """
    torch.onnx.export(
        network,
        (torch.zeros(1, 1, SIZE, SIZE),),
        str(path),
        dynamo=False,
        opset_version=OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )
    onnx.checker.check_model(str(path), full_check=True)


class Calibration(quantization.CalibrationDataReader):
    """Hands the calibration images to the quantizer in batches."""

    def __init__(self, images: np.ndarray) -> None:
        floats = floats_from_images(images)
        self._feeds = iter({"image": floats[i : i + 50]} for i in range(0, len(floats), 50))

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next batch, or None after the last."""
        return next(self._feeds, None)


def quantize(source: Path, *, target: Path, images: np.ndarray) -> None:
    """Write the network with Q/DQ nodes, in the only form that TensorRT's parser takes.

    That is: zero points of zero (symmetric), and no int32 bias behind a DequantizeLinear. The first
    layer, with its one channel, and what follows the last convolution stay in FP32, as is usual:
    they cost more to convert than they would save.
    """
    nodes = onnx.load(str(source)).graph.node
    convolutions = [index for index, node in enumerate(nodes) if node.op_type == "Conv"]
    kept = [*nodes[: convolutions[1]], *nodes[convolutions[-1] + 2 :]]
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(source), str(prepared))
        quantization.quantize_static(
            str(prepared),
            str(target),
            Calibration(images),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
            nodes_to_exclude=[node.name for node in kept],
            extra_options={
                "ActivationSymmetric": True,
                "WeightSymmetric": True,
                "QuantizeBias": False,
            },
        )
    model = onnx.load(str(target))
    used = {node.domain for node in model.graph.node}
    # The quantizer lists every operator domain it knows; a parser should see only those in use.
    for unused in [entry for entry in model.opset_import if entry.domain not in used]:
        model.opset_import.remove(unused)
    onnx.save(model, str(target))
    onnx.checker.check_model(str(target), full_check=True)


def count_correct(path: Path, part: Part) -> int:
    """Return how many images ONNX Runtime classifies rightly with this model."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": floats_from_images(part.images)})
    return int((logits.argmax(axis=1) == part.labels).sum())


def describe(paths: dict[str, Path], *, parts: dict[str, Part], seed: int) -> dict[str, Any]:
    """Return what digits.json holds: how the files were made, and what they are worth."""
    held_out = parts["held_out"]
    correct = {name: count_correct(paths[name], held_out) for name in ("fp32", "int8")}
    return {
        "made_by": "tools/train_digits.py",
        "seed": seed,
        "epochs": EPOCHS,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "opset": OPSET,
        "input": {
            "name": "image",
            "shape": ["batch", 1, SIZE, SIZE],
            "preparation": "8×8 enlarged to 32×32 (bilinear), uint8 in digits.npz; divide by 255",
        },
        "output": {"name": "logits", "shape": ["batch", 10]},
        "split": SPLIT,
        "split_order": "order of the data set; every part begins where a writer's form begins",
        "quantization": "ONNX Runtime Q/DQ, static, MinMax, symmetric int8, weights per channel, "
        "biases, the first layer and what follows the last convolution left in FP32",
        "accuracy": {
            name: {"correct": n, "of": len(held_out.labels), "fraction": n / len(held_out.labels)}
            for name, n in correct.items()
        },
        "sha256": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths.values()
        },
        "data_licence": LICENCE,
    }


def main() -> None:
    """Make the four files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    names = {"fp32": "digits.onnx", "int8": "digits.int8.onnx", "images": "digits.npz"}
    paths = {key: options.output / name for key, name in names.items()}

    parts = load_parts()
    network = train(parts["train"], seed=options.seed, epochs=EPOCHS)
    export(network, path=paths["fp32"])
    quantize(paths["fp32"], target=paths["int8"], images=parts["calibration"].images)
    held_out = parts["held_out"]
    np.savez_compressed(paths["images"], images=held_out.images, labels=held_out.labels)
    facts = describe(paths, parts=parts, seed=options.seed)
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    (options.output / "digits.json").write_text(text + "\n", encoding="utf-8")
    for name, path in paths.items():
        print(f"{name:6s}  {path.name:18s}  {path.stat().st_size / 1000:.0f} kB")
    print(json.dumps(facts["accuracy"], indent=2))


if __name__ == "__main__":
    main()
