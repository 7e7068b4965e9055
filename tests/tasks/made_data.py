"""Small data sets with known answers, drawn here, and networks that read them."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from models import save_text

COLOURS = {"n01440764": (220, 30, 30), "n01443537": (30, 200, 30), "n01484850": (30, 30, 220)}
POINTS = 3


def colour_folder(root: Path, *, per_class: int = 4, names: list[str] | None = None) -> Path:
    """Images of one colour each, in a folder per class."""
    rng = np.random.default_rng(0)
    for name, (wordnet, colour) in zip(names or list(COLOURS), COLOURS.items(), strict=True):
        (root / name).mkdir(parents=True)
        for number in range(per_class):
            size = (40 + 7 * number, 60 - 5 * number)
            pixels = np.asarray(Image.new("RGB", size, colour), np.int16)
            noisy = np.clip(pixels + rng.integers(-20, 20, pixels.shape), 0, 255)
            Image.fromarray(noisy.astype(np.uint8)).save(root / name / f"{wordnet}_{number}.png")
    return root


def colour_network(path: Path, *, classes: int = 3, swap: bool = False, size: int = 16) -> Path:
    """Scores are the means of red, green and blue; more classes have score -10; swap two."""
    weights = np.zeros((3, classes), np.float32)
    for channel, target in enumerate((1, 0, 2) if swap else (0, 1, 2)):
        weights[channel, target] = 1.0
    bias = np.array([0.0, 0.0, 0.0, *[-10.0] * (classes - 3)], np.float32)
    text = f"""net (float[batch, 3, {size}, {size}] images) => (float[batch, {classes}] output) {{
        pooled = GlobalAveragePool(images)
        flat = Flatten(pooled)
        output = Gemm(flat, weight, bias)
    }}"""
    return save_text(path, text, weight=weights, bias=bias)


def depth_data(root: Path, *, count: int = 3, size: int = 32) -> Path:
    """Images whose red channel is inverse depth in 1/255, and their depths."""
    (root / "images").mkdir(parents=True)
    (root / "truth").mkdir()
    for number in range(count):
        inverse = np.full((size, size), 40, np.uint8)
        picture = Image.fromarray(inverse)
        draw = ImageDraw.Draw(picture)
        draw.ellipse((4 + 2 * number, 4, 20, 20), fill=200)
        draw.rectangle((14, 18, 30, 28), fill=120 + 20 * number)
        red = np.asarray(picture, np.uint8)
        zero = np.zeros_like(red)
        Image.fromarray(np.stack([red, zero, zero], axis=2)).save(root / f"images/{number}.png")
        np.save(root / f"truth/{number}.npy", 255.0 / red)
    return root


def depth_network(
    path: Path, *, gain: float = 1.0, shift: float = 0.0, size: int = 32, power: float = 1.0
) -> Path:
    """Output is gain · red^power + shift: inverse depth, if the gain is 1 and the rest left out."""
    ends = f"(float[batch, 3, {size}, {size}] images) => (float[batch, 1, {size}, {size}] output)"
    text = f"""net {ends} {{
        red = Conv(images, weight)
        bent = Pow(red, power)
        scaled = Mul(bent, gain)
        output = Add(scaled, shift)
    }}"""
    weight = np.array([1, 0, 0], np.float32).reshape(1, 3, 1, 1)
    return save_text(path, text, weight=weight, gain=gain, shift=shift, power=power)


def pose_row(
    centre: tuple[float, float], size: tuple[float, float], score: float, points: list
) -> list[float]:
    flat = [value for x, y in points for value in (x, y, 0.9)]
    return [*centre, *size, score, *flat]


def pose_network(path: Path, rows: list[list[float]], *, channels: int = 3, size: int = 64) -> Path:
    """Says the same about every image: these predictions, as YOLOv8-pose lays them out."""
    table = np.array(rows, np.float32).T[None]
    # More predictions than values, as real networks have.
    filler = np.zeros((1, table.shape[1], 40 - table.shape[2]), np.float32)
    table = np.concatenate([table, filler], axis=2)
    values, count = table.shape[1:]
    images, output = f"float[batch, {channels}, {size}, {size}]", f"float[batch, {values}, {count}]"
    text = f"""net ({images} images) => ({output} output) {{
        mean = ReduceMean <axes = [1, 2, 3], keepdims = 1> (images)
        flat = Reshape(mean, shape)
        nothing = Mul(flat, zero)
        output = Add(nothing, table)
    }}"""
    return save_text(path, text, shape=[-1, 1, 1], zero=0.0, table=table)


def person(points: list[tuple[float, float]], box: list[float], *, image: int, id: int) -> dict:
    return {
        "id": id, "image_id": image, "category_id": 1, "bbox": box, "area": box[2] * box[3],
        "iscrowd": 0, "num_keypoints": len(points),
        "keypoints": [value for x, y in points for value in (x, y, 2)],
    }  # fmt: skip


def annotations(path: Path, images: dict[str, int], people: list[dict]) -> Path:
    content = {
        "images": [{"id": number, "file_name": name} for name, number in images.items()],
        "annotations": people,
        "categories": [
            {"id": 1, "name": "person", "keypoints": ["a", "b", "c"], "skeleton": [[1, 2], [2, 3]]}
        ],
    }
    path.write_text(json.dumps(content))
    return path
