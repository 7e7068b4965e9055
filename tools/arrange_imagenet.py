"""Arrange a flat ImageNet download into one folder per class, as ``trtbench eval`` reads it.

    python tools/arrange_imagenet.py ILSVRC2012_img_val imagenet/val --labels LOC_val_solution.csv

The class of an image is taken from the list, or from a WordNet id in its name
(``ILSVRC2012_val_00000293_n01440764.JPEG``). A list is Kaggle's ``LOC_val_solution.csv``, any
table of file and class, or one class per line in the order of the file names, as in the
development kit. The kit's numbers, 1 to 1000, are not in the order of the networks' outputs: name
them in that order in the ``--classes`` of ``trtbench eval``. Files are linked, not copied, unless
asked for; nothing is overwritten.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
WORDNET = re.compile(r"n\d{8}")


def images_in(folder: Path) -> list[Path]:
    """Find the images of a flat folder, in order of their names."""
    found = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES]
    return sorted(found, key=lambda path: path.name)


def classes_from_list(path: Path, images: list[Path]) -> dict[str, str]:
    """Read the class of every image, by its name without ending."""
    rows = _rows(path)
    if rows and all(len(row) == 1 for row in rows):
        if len(rows) != len(images):
            raise SystemExit(f"{path} has {len(rows)} lines, and there are {len(images)} images")
        return {image.stem: row[0] for image, row in zip(images, rows, strict=True)}
    # Kaggle puts boxes behind the class: "n01751748 111 108 233 207".
    return {Path(row[0]).stem: row[1].split()[0] for row in rows if len(row) > 1 and row[1]}


def classes_from_names(images: list[Path]) -> dict[str, str]:
    """Take WordNet ids out of file names; images without one are left out."""
    found = ((image.stem, WORDNET.findall(image.stem)) for image in images)
    return {stem: ids[-1] for stem, ids in found if ids}


def arrange(images: list[Path], classes: dict[str, str], target: Path, *, how: str) -> Counter[str]:
    """Put every image into the folder of its class; tells what became of how many."""
    done: Counter[str] = Counter()
    for image in images:
        name = classes.get(image.stem)
        if name is None or Path(name).name != name:
            done["without a class"] += 1
            continue
        place = target / name / image.name
        if place.exists():
            done["there already"] += 1
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        _put(image, place, how=how)
        done["arranged"] += 1
    return done


def _put(image: Path, place: Path, *, how: str) -> None:
    if how == "move":
        shutil.move(str(image), place)
    elif how == "copy":
        shutil.copy2(image, place)
    else:
        try:
            os.link(image, place)
        except OSError:  # another file system cannot share a file
            place.symlink_to(image.resolve())


def _rows(path: Path) -> list[list[str]]:
    try:
        text = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise SystemExit(f"{path} cannot be read: {problem}") from None
    if path.suffix == ".csv":
        rows = list(csv.reader(text))
        header = rows and rows[0][0].lower() in ("imageid", "image", "file", "filename")
        return rows[1:] if header else rows
    return [line.split(maxsplit=1) for line in text if line.strip()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="flat folder of images")
    parser.add_argument("target", type=Path, help="where the folders go")
    parser.add_argument("--labels", type=Path, help="list of classes (default: from the names)")
    parser.add_argument("--how", choices=("link", "copy", "move"), default="link")
    given = parser.parse_args()
    if not given.source.is_dir():
        raise SystemExit(f"there is no folder {given.source}")
    images = images_in(given.source)
    if not images:
        raise SystemExit(f"there are no images in {given.source}")
    classes = (
        classes_from_list(given.labels, images) if given.labels else classes_from_names(images)
    )
    done = arrange(images, classes, given.target, how=given.how)
    print(", ".join(f"{count} {what}" for what, count in sorted(done.items())))
    if not done["arranged"] and not done["there already"]:
        print("no image has a class: give a list with --labels", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
