"""The header of an engine file (a plan): flavour and version, without TensorRT."""

from __future__ import annotations

import struct
from typing import Literal

from trtbench.domain.spec import Value
from trtbench.trtexec._json import parse_error

HEADER_BYTES = 64
"""All that is looked at; TensorRT-RTX says the same of its own header."""

Flavour = Literal["tensorrt", "tensorrt_rtx"]

_FLAVOURS: dict[bytes, Flavour] = {b"ftrt": "tensorrt", b"vtrt": "tensorrt_rtx"}
_VERSION_AT = 24
_SIZE_AT = 16
_CAPABILITIES_AT = 32
_WEIGHTS_AT = 56
_RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""Bits of the mask of a TensorRT-RTX plan, from the lowest; observed, not documented."""


class PlanHeader(Value, frozen=True, kw_only=True):
    """What the first bytes of an engine tell; advice, not a promise that it will load."""

    flavour: Flavour
    version: str | None
    """Major, minor, patch and build; ``None`` when the bytes are empty."""
    serialization: int
    plan_bytes: int | None = None
    """Size that a TensorRT-RTX plan states of itself."""
    weight_bytes: int | None = None
    compute_capabilities: tuple[str, ...] = ()
    """Devices a TensorRT-RTX plan was built for."""
    capability_mask: int | None = None


def is_plan(head: bytes) -> bool:
    """Tell an engine by its first four bytes."""
    return head[:4] in _FLAVOURS


def flavour_of(head: bytes) -> Flavour | None:
    """Tell which TensorRT an engine is for by its first four bytes."""
    return _FLAVOURS.get(bytes(head[:4]))


def plan_from_bytes(head: bytes, *, where: str) -> PlanHeader:
    """Read the header from the first 64 bytes of a file."""
    flavour = flavour_of(head)
    needed = HEADER_BYTES if flavour == "tensorrt_rtx" else _VERSION_AT + 4
    if flavour is None or len(head) < needed:
        raise parse_error(
            where,
            what="is not an engine" if flavour is None else "is cut off",
            place="byte 0" if flavour is None else f"byte {len(head)}",
            expected="an engine that begins with ftrt (TensorRT) or vtrt (TensorRT-RTX)",
            found=repr(bytes(head[:8])) if flavour is None else f"{len(head)} bytes",
        )
    (serialization,) = struct.unpack_from("<I", head, 4)
    version = _version(head[_VERSION_AT : _VERSION_AT + 4])
    if flavour == "tensorrt":
        return PlanHeader(flavour=flavour, version=version, serialization=serialization)
    (plan_bytes,) = struct.unpack_from("<Q", head, _SIZE_AT)
    (mask,) = struct.unpack_from("<I", head, _CAPABILITIES_AT)
    (weight_bytes,) = struct.unpack_from("<Q", head, _WEIGHTS_AT)
    return PlanHeader(
        flavour=flavour,
        version=version,
        serialization=serialization,
        plan_bytes=plan_bytes,
        weight_bytes=weight_bytes,
        compute_capabilities=tuple(
            name for bit, name in enumerate(_RTX_CAPABILITIES) if mask >> bit & 1
        ),
        capability_mask=mask,
    )


def _version(parts: bytes) -> str | None:
    return ".".join(str(part) for part in parts) if any(parts) else None
