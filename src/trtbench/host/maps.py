"""Files that hold one map of numbers: NumPy, PNG, TIFF, PFM and OpenEXR.

OpenEXR is read here, without a library: scan lines, not compressed or by ZIP, which is how depth is
saved; other kinds are refused by name.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from trtbench.boundary import check_file, read_bytes
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError
from trtbench.host.arrays import DAMAGE, one_array, read_archive
from trtbench.host.images import pillow

MOST_PIXELS = 1 << 28
MOST_PACKED = 1100
"""Bytes that ZIP makes of one, at the most."""
NAMES = ("depth", "disparity", "gt", "arr_0")
"""What the array of an ``.npz`` with several is called."""
CHANNELS = ("Z", "depth", "depth.Z", "Y", "V", "R")
"""What the channel of an OpenEXR file with several is called."""


def read_map(path: Path) -> AnyArray:
    """Read a map of height and width; dimensions of one are left away."""
    check_file(path)
    try:
        values = np.squeeze(READERS[path.suffix.lower()](path))
    except (*DAMAGE, struct.error, IndexError, AttributeError) as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem}) from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"{path} is not a map", facts={"shape": values.shape, "type": str(values.dtype)}
        )
    return values


def _npz(path: Path) -> AnyArray:
    arrays = read_archive(path)
    return _chosen(arrays, NAMES, what="arrays")


def _picture(path: Path) -> AnyArray:
    kind = "PNG" if path.suffix.lower() == ".png" else "TIFF"
    with pillow().open(path, formats=[kind]) as picture:
        return np.asarray(picture)


def _pfm(path: Path) -> AnyArray:
    """Read what follows ``Pf``, width, height and scale, from the last row to the first."""
    data = read_bytes(path)
    head = re.match(rb"P([fF])\s+(\d+)\s+(\d+)\s+(-?[\d.]+(?:[eE][-+]?\d+)?)\s", data)
    if head is None:
        raise ValueError("it does not begin as a PFM file does")
    channels, width, height = 3 if head[1] == b"F" else 1, int(head[2]), int(head[3])
    count = _counted(width, height) * channels
    kind = "<f4" if float(head[4]) < 0 else ">f4"
    values = np.frombuffer(data, kind, count, offset=head.end()).reshape(height, width, channels)
    return values[::-1, :, 0].astype(np.float32)


def _exr(path: Path) -> AnyArray:
    data = read_bytes(path)
    magic, version = struct.unpack_from("<II", data)
    if magic != 20000630:
        raise ValueError("it does not begin as an OpenEXR file does")
    if version & 0x1A00:
        raise ValueError("OpenEXR of tiles, depths or several parts is not read: save scan lines")
    head, place = _exr_head(data)
    left, top, right, bottom = struct.unpack("<4i", head["dataWindow"])
    width, height = right - left + 1, bottom - top + 1
    _counted(width, height)
    channels = list(_exr_channels(head["channels"]))
    block = {0: 1, 2: 1, 3: 16}.get(head["compression"][0])
    if block is None:
        raise ValueError("OpenEXR is read uncompressed or by ZIP: save it so, or as .npy")
    line = np.dtype([(name, kind, (width,)) for name, kind in channels])
    if height * line.itemsize > MOST_PACKED * len(data):
        raise ValueError("it says that it is larger than the file can be")
    rows = np.empty(height, line)
    for offset in struct.unpack_from(f"<{-(-height // block)}Q", data, place):
        first, size = struct.unpack_from("<ii", data, offset)
        count = min(block, bottom + 1 - first)
        part = _unpacked(data[offset + 8 : offset + 8 + size], line.itemsize * count)
        rows[first - top : first - top + count] = np.frombuffer(part, line, count)
    return _chosen({name: rows[name] for name, _ in channels}, CHANNELS, what="channels")


def _exr_head(data: bytes) -> tuple[dict[str, bytes], int]:
    """Read the attributes of a header, and where it ends."""
    found, place = {}, 8
    while data[place]:
        name, place = _word(data, place)
        _, place = _word(data, place)
        (size,) = struct.unpack_from("<i", data, place)
        found[name] = data[place + 4 : place + 4 + size]
        place += 4 + size
        if size < 0:
            raise ValueError("an attribute has no size")
    return found, place + 1


def _exr_channels(listed: bytes) -> Iterator[tuple[str, str]]:
    place = 0
    while listed[place]:
        name, place = _word(listed, place)
        kind, _, across, down = struct.unpack_from("<iiii", listed, place)
        if (across, down) != (1, 1):
            raise ValueError(f"the channel {name} has fewer pixels than the image")
        yield name, ("<u4", "<f2", "<f4")[kind]
        place += 16


def _word(data: bytes, place: int) -> tuple[str, int]:
    end = data.index(0, place)
    return data[place:end].decode("latin-1"), end + 1


def _unpacked(part: bytes, size: int) -> bytes:
    """Undo ZIP, then what makes bytes easier to pack: halves apart, differences of neighbours."""
    if len(part) == size:
        return part
    stream = zlib.decompressobj()
    packed = np.frombuffer(stream.decompress(part, size), np.uint8)
    if len(packed) != size:
        raise ValueError("a block of lines ends before its end")
    steps = packed + np.uint8(128)
    steps[0] = packed[0]
    plain = np.cumsum(steps, dtype=np.uint8)
    joined, half = np.empty(size, np.uint8), -(-size // 2)
    joined[0::2], joined[1::2] = plain[:half], plain[half:]
    return joined.tobytes()


def _chosen(parts: Mapping[str, AnyArray], names: tuple[str, ...], *, what: str) -> AnyArray:
    """Take the only part, the first that has one of the names, or the only one called depth."""
    known = {part.lower(): part for part in parts}
    depths = [part for part in parts if "depth" in part.lower()]
    name = (
        next(iter(parts))
        if len(parts) == 1
        else next(
            (known[n.lower()] for n in names if n.lower() in known),
            depths[0] if len(depths) == 1 else None,
        )
    )
    if name is None:
        raise ValueError(f"which of its {what} is the map? {', '.join(parts) or 'it has none'}")
    return parts[name]


def _counted(width: int, height: int) -> int:
    if width < 1 or height < 1 or width * height > MOST_PIXELS:
        raise ValueError(f"{width}x{height} pixels cannot be meant")
    return width * height


READERS: dict[str, Callable[[Path], AnyArray]] = {
    ".npy": one_array,
    ".npz": _npz,
    ".pfm": _pfm,
    ".exr": _exr,
    ".tif": _picture,
    ".tiff": _picture,
    ".png": _picture,
}
"""By ending; where a name is there with several, the first counts."""
