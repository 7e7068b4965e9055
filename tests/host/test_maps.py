"""Maps of numbers in every kind of file: what is read is what was written."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trtbench.core.errors import InputError
from trtbench.host.images import read_map

STEPS = (np.arange(20 * 4).reshape(20, 4) / 8).astype(np.float32)


def written(folder: Path, kind: str) -> Path:
    path = folder / f"map.{kind}"
    if kind == "npy":
        np.save(path, STEPS[None])
    elif kind == "npz":
        np.savez(path, depth=STEPS, mask=STEPS > 1)
    elif kind == "pfm":
        path.write_bytes(b"Pf\n4 20\n-1.0\n" + STEPS[::-1].astype("<f4").tobytes())
    else:
        Image.fromarray(STEPS).save(path)
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "pfm", "tiff"])
def test_what_is_read_is_what_was_written(tmp_path: Path, kind: str) -> None:
    np.testing.assert_array_equal(read_map(written(tmp_path, kind)), STEPS)


def test_bytes_of_pfm_in_the_other_order_and_with_colours(tmp_path: Path) -> None:
    colours = np.stack([STEPS, STEPS + 1, STEPS + 2], axis=2)[::-1].astype(">f4")
    (tmp_path / "a.pfm").write_bytes(b"PF 4 20 1.0\n" + colours.tobytes())
    np.testing.assert_array_equal(read_map(tmp_path / "a.pfm"), STEPS)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("kind", ["npy", "npz", "pfm", "tiff"])
def test_files_cut_short_are_refused_wherever_they_end(tmp_path: Path, kind: str) -> None:
    whole = written(tmp_path, kind).read_bytes()
    damaged = tmp_path / f"damaged.{kind}"
    for end in range(0, len(whole) - 1, 7):
        damaged.write_bytes(whole[:end])
        with pytest.raises(InputError):
            read_map(damaged)


HEADS = {
    b"PF": "header of a PFM", b"Pf\n0 20\n-1\n": "is not possible",
    b"Pf\n99999 99999\n-1\n": "is not possible", b"Pf\n4 20\n1.2.3\n": "could not convert",
}  # fmt: skip


@pytest.mark.parametrize("head", HEADS)
def test_heads_of_pfm_files_that_mean_nothing(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "a.pfm").write_bytes(head + bytes(400))
    with pytest.raises(InputError) as refused:
        read_map(tmp_path / "a.pfm")
    assert HEADS[head] in str(refused.value.facts["reason"])


def test_the_one_array_that_is_called_depth(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", rgb=np.zeros((4, 4, 3)), Depth_m=STEPS, normal=STEPS)
    np.testing.assert_array_equal(read_map(tmp_path / "a.npz"), STEPS)
    np.savez(tmp_path / "b.npz", DEPTH=STEPS, depth_confidence=STEPS + 1)
    np.testing.assert_array_equal(read_map(tmp_path / "b.npz"), STEPS)
