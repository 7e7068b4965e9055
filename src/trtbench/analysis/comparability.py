"""Whether two runs can be compared: which conditions differ, are implied or are unknown.

A difference blocks a ratio if it changes what was measured (shapes, protocol, transfers, TF32,
a CUDA graph on one side, another machine). A condition that was not recorded does not block, but
is listed.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from trtbench.core.errors import refuse_unknown
from trtbench.core.properties import (
    PROPERTIES,
    arguments_of,
    property_named,
    protocol_of,
    result_changing,
    variables_of,
)
from trtbench.core.run import UNKNOWN, Fact, RunRecord, gpu_of, precision_of
from trtbench.core.spec import TensorSpec, Value
from trtbench.core.units import text_from_rate

CLOCK_TOLERANCE = 0.01  # SM clocks that differ by more are a difference

_BUILD_SUFFIX = re.compile(
    r"[._-](?:engine|plan|trt|onnx|pt|pth|prototxt|caffemodel|uff|fp32|fp16|bf16|fp8|int8|int4|tf32"
    r"|best|half|float|qat|ptq|b\d+|bs\d+|batch_?\d+|static|dynamic|sim|simplified|opt)$"
)  # suffixes that distinguish builds of one network


def refuse_unknown_keys(accept: Collection[str]) -> None:
    """Refuse a ``--accept`` that is not the name of a difference."""
    known = [each.name for each in PROPERTIES if each.compare]
    for key in accept:
        problem = f"--accept {key} is not the name of a difference"
        refuse_unknown(key, known, problem, listed="differences", flag="--accept")


class Difference(Value, frozen=True, kw_only=True):
    """One condition in which two runs differ, or may differ."""

    key: str
    baseline: str
    candidate: str
    blocking: bool
    message: str

    @property
    def code(self) -> str:
        """The code of the finding that reports it."""
        known = property_named(self.key)
        return known.code if known else "H28"

    def blocks(self, metric: str) -> bool:
        """Whether it makes a ratio of this metric meaningless."""
        known = property_named(self.key)
        if metric == "gpu" and known is not None and known.host_only:
            return self.blocking and "coldl2" in (self.baseline, self.candidate)
        return self.blocking

    @property
    def of_device(self) -> bool:
        known = property_named(self.key)
        return known is not None and known.machine


Differences = Collection[Difference]
_Found = tuple[object, object, str, bool] | None  # both values, the message, whether it blocks


def differences(
    baseline: RunRecord, candidate: RunRecord, *, accept: Collection[str] = ()
) -> tuple[Difference, ...]:
    """List what differs between two runs, devices last; accepted keys do not block."""
    found: dict[str, _Found] = {}
    # Declared properties; some are compared by a function of their own.
    for each in PROPERTIES:
        if each.compare is None or each.condition:
            continue
        one, other = each.read(baseline), each.read(candidate)
        said = each.said or f"different {each.words}: {{}} against {{}}"
        if each.name in _COMPARISONS:
            found[each.name] = _COMPARISONS[each.name](baseline, candidate)
        elif one is not None and other is not None and one != other:
            found[each.name] = (one, other, said.format(one, other), each.compare == "block")
    for key in dict.fromkeys((*baseline.conditions, *candidate.conditions)):
        known = property_named(key)
        if known is not None and not known.condition:
            continue  # already compared above
        left, right = baseline.conditions.get(key), candidate.conditions.get(key)
        one, other, words = _text(left), _text(right), key.replace("_", " ")
        missing = any(x is None or x.source == "unknown" or x.value is None for x in (left, right))
        if left is None or right is None or missing:
            if known is not None and known.questioned:
                found[key] = (one, other, f"{words} was not recorded on one side", False)
        elif left.value != right.value:
            message = (known.said if known else None) or f"{words} {one} against {other}"
            if "implied" in (left.source, right.source):
                message += " (implied by the version, not recorded)"
            found[key] = (one, other, message, known is not None and known.compare == "block")
    listed = [
        Difference(
            key=key,
            baseline=str(one),
            candidate=str(other),
            blocking=blocks and key not in accept,
            message=f"{message} (accepted)" if key in accept else message,
        )
        for key, (one, other, message, blocks) in ((k, v) for k, v in found.items() if v)
    ]
    return tuple(sorted(listed, key=lambda each: each.of_device))


def blocking_reasons(found: Differences, *, metric: str) -> str | None:
    """Return in one line why a ratio of this metric is refused; ``None`` if it is not."""
    return "; ".join(dict.fromkeys(each.message for each in found if each.blocks(metric))) or None


def across_devices(baseline: RunRecord, candidate: RunRecord) -> str | None:
    """Name the devices of two runs if they differ and a run was imported; else ``None``."""
    records = (baseline, candidate)
    if all(record.provenance == "measured" for record in records):
        return None
    if not any(each.blocking and each.of_device for each in differences(baseline, candidate)):
        return None
    names = []
    for record in records:
        gpu, environment = gpu_of(record), record.environment
        names.append(gpu.name if gpu is not None else environment.cpu or environment.host)
    return f"{names[0]} against {names[1]}"


def _models(a: RunRecord, b: RunRecord) -> _Found:
    """Compare the networks of imported runs by the names of their files."""
    names = []
    for record in (a, b):
        name = record.spec.model.name.lower()
        while (shorter := _BUILD_SUFFIX.sub("", name)) not in ("", name):
            name = shorter
        names.append(name)
    left, right = names
    same_bytes = a.spec.model.sha256 is not None and a.spec.model.sha256 == b.spec.model.sha256
    if "imported" not in (a.provenance, b.provenance) or left == right or same_bytes:
        return None
    return left, right, f"different networks, by their names: {left} against {right}", False


def compare_inputs(a: Sequence[TensorSpec], b: Sequence[TensorSpec]) -> _Found:
    """Compare shapes and types; a type that was not recorded matches any."""
    one, other = (
        ", ".join(f"{'x'.join(map(str, each.shape))} {each.dtype}" for each in side) or "unknown"
        for side in (a, b)
    )
    if not a or not b:
        return (one, other, "the input shapes of one side are unknown", False) if a or b else None
    if len(a) == len(b) and all(
        x.shape == y.shape and (x.dtype == y.dtype or UNKNOWN in (x.dtype, y.dtype))
        for x, y in zip(a, b, strict=True)
    ):
        return None
    return one, other, f"input shapes or types differ: {one} against {other}", True


def inputs_reason(
    a: Sequence[TensorSpec], b: Sequence[TensorSpec], *, accept: Collection[str]
) -> str | None:
    """Return why sides with these inputs cannot be compared; ``None`` if they can."""
    found = compare_inputs(a, b)
    return found[2] if found is not None and found[3] and "inputs" not in accept else None


def _batches(a: RunRecord, b: RunRecord) -> _Found:
    if a.known_items is None and b.known_items is None:
        message = "the batch of both sides is unknown: one query may be more work than the other"
        return "unknown", "unknown", message, False
    if a.known_items == b.known_items:
        return None
    one, other = (each.known_items or "unknown" for each in (a, b))
    return a.batch, b.batch, f"batch {one} against {other}", True


def _protocol(a: RunRecord, b: RunRecord) -> _Found:
    facts = [record.conditions.get("protocol") for record in (a, b)]
    if any(fact is not None and fact.source == "unknown" for fact in facts):
        return _text(facts[0]), _text(facts[1]), "the protocol was not recorded on one side", False
    return _unequal("different protocols:", protocol_of(a), protocol_of(b), blocks=True)


def _fallbacks(a: RunRecord, b: RunRecord) -> _Found:
    """Say which side ran without the CUDA graph that was tried, and why."""
    one, other = (r.conditions.get("cuda_graph_fell_back") for r in (a, b))
    fell = [fact is not None and fact.value is True for fact in (one, other)]
    if fell[0] == fell[1]:
        return None
    side, record = ("baseline", a) if fell[0] else ("candidate", b)
    told = (each.partition(": ") for each in record.notes)
    reasons = (why for what, _, why in told if what.endswith("without a CUDA graph"))
    reason = next(reasons, "it could not be captured")
    return _text(one), _text(other), f"the {side} ran without a CUDA graph: {reason}", False


def _unequal(what: str, one: object, other: object, *, blocks: bool = False) -> _Found:
    return (one, other, f"{what} {one} against {other}", blocks) if one != other else None


def _variables(a: RunRecord, b: RunRecord) -> _Found:
    """Compare environment variables; those that change the measurement block."""
    left, right = variables_of(a), variables_of(b)
    names = [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
    if "measured" not in (a.provenance, b.provenance) or not names:
        return None
    one, other = (
        ", ".join(f"{name}={side[name]}" if name in side else f"no {name}" for name in names)
        for side in (left, right)
    )
    return one, other, f"the environment sets {one} against {other}", bool(result_changing(names))


def _hosts(a: RunRecord, b: RunRecord) -> _Found:
    left, right = a.environment, b.environment
    one, other = left.host, right.host
    if UNKNOWN in (one, other):
        message = "the machine was not recorded" + ("" if one == other else " on one side")
        return one, other, message, False
    # Machines with the same label or hardware count as one: CI runners get a new name each time.
    if left.kind == right.kind or one == other:
        return None
    return one, other, f"different machines: {one} against {other}", True


def _arguments(a: RunRecord, b: RunRecord) -> _Found:
    passed = (arguments_of(record) for record in (a, b))
    one, other = (", ".join(f"{k}={v}" for k, v in x.items()) or "none" for x in passed)
    alike = a.spec.runtime == b.spec.runtime
    return _unequal("different trtexec arguments:", one, other) if alike else None


def _versions(a: RunRecord, b: RunRecord) -> _Found:
    left, right = a.environment.versions, b.environment.versions
    names = [name for name in sorted({*left} & {*right}) if left[name] != right[name]]
    one, other = (", ".join(f"{name} {side[name]}" for name in names) for side in (left, right))
    pairs = ", ".join(f"{name} {left[name]} against {right[name]}" for name in names)
    return (one, other, f"different versions: {pairs}", False) if names else None


def _gpu_uuids(a: RunRecord, b: RunRecord) -> _Found:
    one, other = (getattr(gpu_of(each), "uuid", None) for each in (a, b))
    if one is None or other is None or one == other:
        return None
    # On one machine it is another GPU; CI runners of one kind have different GPUs each time.
    same_host = a.environment.host == b.environment.host
    return one, other, f"different GPU UUID: {one} against {other}", same_host


def _clocks(a: RunRecord, b: RunRecord) -> _Found:
    left, right = gpu_of(a), gpu_of(b)
    one, other = (getattr(gpu, "sm_clock_hz", None) for gpu in (left, right))
    if not left or not right or not one or not other or abs(other / one - 1) <= CLOCK_TOLERANCE:
        return None
    locked = bool(left.clocks_locked and right.clocks_locked)
    message = f"SM clocks differ: {one / 1e6:.0f} MHz against {other / 1e6:.0f} MHz"
    # Unlocked clocks read before a run may change during it.
    message += "" if locked else " (read before the runs, not locked)"
    return one, other, message, locked


def _text(fact: Fact | None) -> str:
    return "unknown" if fact is None or fact.source == "unknown" else str(fact.value)


_COMPARISONS: Mapping[str, Callable[[RunRecord, RunRecord], _Found]] = {
    "model": _models, "inputs": lambda a, b: compare_inputs(a.inputs, b.inputs),
    "batch": _batches, "protocol": _protocol, "cuda_graph_fell_back": _fallbacks,
    "rate_hz": lambda a, b: _unequal(
        "different arrival rates:",
        *(text_from_rate(each.spec.rate_hz) if each.spec.rate_hz else "none" for each in (a, b)),
        blocks=True,
    ),
    "precision": lambda a, b: _unequal(
        "precision", *(precision_of(each) or "unknown" for each in (a, b))
    ),
    "threads": lambda a, b: _unequal("threads", a.spec.threads, b.spec.threads)
    if a.spec.runtime == b.spec.runtime
    else None,
    "variables": _variables,
    "arguments": _arguments, "versions": _versions, "host": _hosts, "gpu_uuid": _gpu_uuids,
    "clock": _clocks,
}  # fmt: skip
"""Properties that need more than a comparison of two values."""
