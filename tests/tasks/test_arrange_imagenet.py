"""The script that arranges a flat ImageNet download."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "arrange_imagenet.py"


def arrange(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    folder = tmp_path / "flat"
    folder.mkdir()
    for number in (1, 2, 3):
        (folder / f"ILSVRC2012_val_{number:08d}.JPEG").write_bytes(bytes([number]))
    return folder


LISTS = {
    "kaggle.csv": "ImageId,PredictionString\n"
    "ILSVRC2012_val_00000002,n01443537 1 2 3 4 \n"
    "ILSVRC2012_val_00000001,n01440764 1 2 3 4 n01440764 5 6 7 8 \n"
    "ILSVRC2012_val_00000003,n01443537 9 9 9 9 \n",
    "table.txt": "ILSVRC2012_val_00000001.JPEG n01440764\n"
    "ILSVRC2012_val_00000002.JPEG n01443537\nILSVRC2012_val_00000003.JPEG n01443537\n",
    "lines.txt": "n01440764\nn01443537\nn01443537\n",
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("how", ["link", "copy", "move"])
def test_lists_of_every_kind(tmp_path: Path, flat: Path, name: str, how: str) -> None:
    (tmp_path / name).write_text(LISTS[name])
    done = arrange(flat, tmp_path / "val", "--labels", tmp_path / name, "--how", how)
    assert done.stdout == "3 arranged\n", done.stderr
    assert (tmp_path / "val/n01440764/ILSVRC2012_val_00000001.JPEG").read_bytes() == b"\1"
    assert len(list((tmp_path / "val/n01443537").iterdir())) == 2
    assert len(list(flat.iterdir())) == (0 if how == "move" else 3)


def test_names_that_tell_the_class_and_nothing_is_overwritten(tmp_path: Path, flat: Path) -> None:
    (flat / "ILSVRC2012_val_00000293_n01440764.JPEG").write_bytes(b"x")
    assert arrange(flat, tmp_path / "val").stdout == "1 arranged, 3 without a class\n"
    again = arrange(flat, tmp_path / "val")
    assert again.stdout == "1 there already, 3 without a class\n"
    assert again.returncode == 0
