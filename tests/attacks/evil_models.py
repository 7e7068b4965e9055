"""Models and archives that a stranger made."""

import io
import tarfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model_with_weights_at(path: Path, location: str, *, count: int = 4) -> Path:
    """Write "x" [count] to "y" = x + w, with the bytes of w in another file."""
    weight = numpy_helper.from_array(np.zeros(count, np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(4 * count))):
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [count])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [count])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    assert onnx.load(str(path), load_external_data=False).graph.node
    return path


def tar_with_header(size: int, *, times: int = 1) -> bytes:
    """A tar file whose only member has pax headers of digits, which match no record of one."""
    header, member, body = tarfile.TarInfo("pax"), tarfile.TarInfo("log.txt"), b"9" * size
    header.type, header.size = tarfile.XHDTYPE, size
    blocks = (header.tobuf(tarfile.USTAR_FORMAT), body, bytes(-size % 512))
    return b"".join(blocks) * times + member.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)


def tar_of(*names: str, data: bytes = b"evil", link: str = "") -> bytes:
    """A tar file with members of these names, which are files or links."""
    with tarfile.open(fileobj=(made := io.BytesIO()), mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 0 if link else len(data)
            member.type, member.linkname = (tarfile.SYMTYPE if link else tarfile.REGTYPE), link
            archive.addfile(member, None if link else io.BytesIO(data))
    return made.getvalue()
