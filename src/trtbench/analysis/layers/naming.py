"""What the names of layers tell: which nodes were fused, what a reformat is for, which block.

TensorRT joins the names of what it fuses (``Conv_3 + Relu_4``), wraps them (``PWN(..)``), names
a Myelin region by its ends (``{ForeignNode[first...last]}``), and a reformat by the layer it is
for. Where the inspector tells no ONNX nodes, these names are all there is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_LETTERS = 72

_FOR = re.compile(r"Reformatting CopyNode for (Input|Output) Tensor (\d+) to (.+)", re.DOTALL)
_REFORMATTER = re.compile(r" (?:in|out)put reformatter \d+$")
"""Until TensorRT 8.2."""
_FOREIGN = re.compile(r"\{ForeignNode\[(?P<first>.*?)\.\.\.(?P<last>.*)\]\}", re.DOTALL)
_DLA = re.compile(r"^\{(?P<nodes>[^{}]*)\}$", re.DOTALL)
_WRAPPED = re.compile(r"^(?:PWN|PointWise|fusedPointwise)\((?P<inner>.*)\)$", re.DOTALL)
_TORCH = re.compile(r"^\[[A-Z_0-9]+\]-\[(?P<op>[^\]]*)\]-\[(?P<node>[^\]]*)\]")
_MYELIN = re.compile(r"_(?P<region>myl\d+)_\d+$")
_CONSTANT = re.compile(r"(?:^|\.)(?:weight|bias|running_mean|running_var)$|^onnx::|_clone_\d+$")
_NUMBERED = re.compile(r"^[A-Za-z]+_\d+$")
_OPERATOR = re.compile(r"(?:^|/)([A-Za-z][A-Za-z0-9]*?)(?:_\d+)?$")
_NOT_A_NODE = re.compile(r"^\(Unnamed Layer\*|^ONNXTRT_|^__my")


def target_of_reformat(name: str) -> str | None:
    """Name the layer that a reformat is for; ``None`` when the name is no reformat's."""
    match = _FOR.match(name)
    return match[3] if match else None


def is_reformat(name: str) -> bool:
    """Tell a reformat by its name alone, in the words of any version."""
    return target_of_reformat(name) is not None or bool(_REFORMATTER.search(name))


def tensor_of_reformat(name: str) -> str | None:
    """Tell which tensor of its layer a reformat is for: ``input 0``."""
    match = _FOR.match(name)
    return f"{match[1].lower()} {match[2]}" if match else None


def foreign_ends(name: str) -> tuple[str, str] | None:
    """Name the first and the last node that a Myelin region swallowed."""
    match = _FOREIGN.search(name)
    return (match["first"].strip(), match["last"].strip()) if match else None


def region_of(name: str) -> str | None:
    """Name the Myelin region that a kernel belongs to: ``myl2``."""
    match = _MYELIN.search(name)
    return match["region"] if match else None


def nodes_of(name: str) -> tuple[str, ...]:
    """List the nodes that a layer's name is made of, in order; weights and helpers are left out."""
    if target_of_reformat(name) is not None:
        return ()
    ends = foreign_ends(name)
    if ends is not None:
        return tuple(dict.fromkeys(each for each in ends if _is_node(each)))
    dla = _DLA.match(name)
    if dla:
        return tuple(each.strip() for each in dla["nodes"].split(",") if _is_node(each.strip()))
    return tuple(dict.fromkeys(part for part in _parts(name) if _is_node(part)))


def operators_named(nodes: Sequence[str]) -> tuple[str, ...]:
    """Guess the kinds of nodes from their names: ``/layer1/conv1/Conv``, ``Add_12``."""
    found = (_OPERATOR.search(node) for node in nodes)
    return tuple(match[1] for match in found if match)


def nodes_between(first: str, last: str, order: Sequence[str]) -> tuple[str, ...]:
    """List the nodes from one to another in an order of nodes; empty when an end is not in it."""
    places = {node: place for place, node in reversed(list(enumerate(order)))}
    if first not in places or last not in places:
        return ()
    begin, end = sorted((places[first], places[last]))
    return tuple(order[begin : end + 1])


def is_numbered(node: str) -> bool:
    """Tell a name that only counts (``Conv_12``): in another file it is another node."""
    return bool(_NUMBERED.match(node))


def short_name(name: str) -> str:
    """Cut the middle out of a name that would fill several lines of prose."""
    if len(name) <= MOST_LETTERS:
        return name
    head = MOST_LETTERS * 2 // 3
    return f"{name[:head]}…{name[head + 1 - MOST_LETTERS :]}"


def block_of(name: str, *, depth: int = 1) -> str:
    """Name the block of a node: ``/layer3/layer3.1/conv1/Conv`` at depth 1 is ``/layer3``."""
    slash = name.startswith("/")
    parts = [part for part in name.split("/") if part]
    if len(parts) == 1:
        parts = [part for part in name.lstrip("/").split(".") if part]
        return ".".join(parts[:depth]) if len(parts) > 1 else name
    return ("/" if slash else "") + "/".join(parts[: max(1, min(depth, len(parts) - 1))])


def _parts(name: str) -> list[str]:
    parts: list[str] = []
    for part in re.split(r" \+ | \|\| ", name.strip()):
        wrapped = _WRAPPED.match(part.strip())
        torch = _TORCH.match(part.strip())
        own = (torch["node"] or torch["op"]) if torch else part.strip()
        inner = _parts(_commas(wrapped["inner"])) if wrapped else [own]
        parts += [re.sub(r"_myl\d+_\d+$", "", each) for each in inner]
    return parts


def _commas(text: str) -> str:
    """Replace commas, which join in ``PWN(a, b)``, by the plus signs of other layers."""
    return text.replace(", ", " + ")


def _is_node(part: str) -> bool:
    return bool(part) and not _CONSTANT.search(part) and not _NOT_A_NODE.match(part)
