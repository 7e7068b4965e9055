"""Whether two runs may be compared at all: what differs, what was only implied, what nobody knows.

A difference blocks a ratio when it changes what was measured (shapes, protocol, transfers, TF32,
a CUDA graph on one side, another machine). A condition nobody recorded does not block; it is
named, because a number without it is only as good as the guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from trtbench.domain.ran import arguments_of, gap_of, protocol_of
from trtbench.domain.result import UNKNOWN, Fact, Gpu, RunRecord, gpu_of, precision_of
from trtbench.domain.spec import Value
from trtbench.domain.variables import deciding, variables_of
from trtbench.errors import refuse_unknown

CLOCK_TOLERANCE = 0.01
"""SM clocks further apart than 1 % are another condition (nvbench compares in cycles)."""

BLOCKING_CONDITIONS = {
    "transfers": "host-to-device and device-to-host copies are timed on one side only",
    "cuda_graph": "a CUDA graph was used on one side only",
    "tf32": "TF32 was allowed on one side only",
    "spin_wait": "one side spins while it waits, the other sleeps",
    "streams": "the sides used different numbers of streams",
    "clocks_locked": "clocks were locked on one side only",
    "profiler": "a profiler was attached on one side only",
    "input_source": "the sides were fed different data",
}
"""Conditions that change the measurement itself, and what to say."""

QUESTIONED_CONDITIONS = ("transfers", "cuda_graph", "tf32")
"""Conditions worth a note when a side does not tell them."""

ONLY_HOST = frozenset({"transfers", "spin_wait", "protocol"})
"""Differences that leave GPU time untouched (measured: below 0.1 %)."""

_FURTHER = re.compile(
    r"[._-](?:engine|plan|trt|onnx|pt|pth|prototxt|caffemodel|uff|fp32|fp16|bf16|fp8|int8|int4|tf32"
    r"|best|half|float|qat|ptq|b\d+|bs\d+|batch_?\d+|static|dynamic|sim|simplified|opt)$"
)
"""Endings that tell builds of one network apart."""

CODES = {
    "model": "H25", "inputs": "H25", "batch": "H25", "protocol": "H25", "transfers": "H25",
    "cuda_graph": "H24", "tf32": "H27", "clock": "H06", "clocks_locked": "H06", "typing": "H26",
    "precision": "H26", "streams": "H25", "spin_wait": "H25",
}  # fmt: skip


DEVICE_KEYS = frozenset({
    "host", "cpu", "cpu_cores", "gpu_name", "gpu_uuid", "gpu_power_limit_w", "gpu_ecc",
    "gpu_driver", "gpu_persistence", "clock", "clocks_locked",
})  # fmt: skip
"""Differences that are the machine's own; two runs that differ in these were on two devices."""

ACCEPTABLE = (
    "model", "inputs", "batch", "protocol", "gap_s", "rate_hz", "precision",
    *BLOCKING_CONDITIONS, "variables", "host", "cpu", "cpu_cores", "threads", "arguments",
    "versions",
    "gpu_name", "gpu_uuid", "gpu_power_limit_w", "gpu_ecc", "gpu_driver", "gpu_persistence",
    "clock",
)  # fmt: skip
"""Keys that a difference may have, and so what may be accepted."""


def refuse_unknown_keys(accept: Collection[str]) -> None:
    """Refuse to accept what no difference is called: it would be obeyed by nobody."""
    for key in accept:
        said = f"--accept {key} names no difference"
        refuse_unknown(key, ACCEPTABLE, said, listed="differences", flag="--accept")


class Difference(Value, frozen=True, kw_only=True):
    """One condition in which two runs differ, or in which it cannot be told."""

    key: str
    baseline: str
    candidate: str
    blocking: bool
    message: str

    @property
    def code(self) -> str:
        """The row of the rule table it belongs to."""
        return CODES.get(self.key, "H28")

    def blocks(self, metric: str) -> bool:
        """Say whether a ratio of this metric would mean nothing."""
        return self.blocking and not (metric == "gpu" and self.key in ONLY_HOST)


def differences(
    baseline: RunRecord, candidate: RunRecord, *, accept: Collection[str] = ()
) -> tuple[Difference, ...]:
    """List what differs between two runs; accepted keys no longer block."""
    found = (
        *_models(baseline, candidate),
        *_inputs(baseline, candidate),
        *_protocol(baseline, candidate),
        *_conditions(baseline, candidate),
        *_variables(baseline, candidate),
        *_machine(baseline, candidate),
        *_gpus(baseline, candidate),
    )
    return tuple(_accepted(each) if each.key in accept else each for each in found)


def blocking_reasons(found: Collection[Difference], *, metric: str) -> str | None:
    """Say in one line why a ratio of this metric is refused; ``None`` when it is not."""
    messages = [each.message for each in found if each.blocks(metric)]
    return "; ".join(dict.fromkeys(messages)) or None


def across_devices(baseline: RunRecord, candidate: RunRecord) -> str | None:
    """Say between which devices two runs lie that nobody can measure side by side any more.

    Runs that were imported are all there is of them; a ratio is made, and labelled as this.
    ``None`` for runs of one device, and for two that were measured here and can be again.
    """
    records = (baseline, candidate)
    if all(record.provenance == "measured" for record in records):
        return None
    gpus = [gpu_of(record) for record in records]
    names = [
        gpu.name if gpu is not None else record.environment.cpu or record.environment.host
        for gpu, record in zip(gpus, records, strict=True)
    ]
    found = differences(baseline, candidate)
    if not any(each.blocking and each.key in DEVICE_KEYS for each in found):
        return None
    return f"{names[0]} against {names[1]}"


def _models(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    """Say that two imported runs are of different networks, by what their files are called."""
    if "imported" not in (a.provenance, b.provenance):
        return
    left, right = (_network(record) for record in (a, b))
    same_bytes = a.spec.model.sha256 is not None and a.spec.model.sha256 == b.spec.model.sha256
    if left == right or same_bytes:
        return
    message = f"two networks, by their names: {left} against {right}"
    yield _difference("model", left, right, message)


def _network(record: RunRecord) -> str:
    """Write the name that a network's files share, without folder, ending, precision and batch."""
    name = record.spec.model.name.lower()
    while (shorter := _FURTHER.sub("", name)) not in ("", name):
        name = shorter
    return name


def _inputs(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    if not a.inputs or not b.inputs:
        if a.inputs or b.inputs:
            yield _difference(
                "inputs", _shapes(a), _shapes(b), "one side does not tell its input shapes"
            )
    elif not _same_inputs(a, b):
        message = f"input shapes or types differ: {_shapes(a)} against {_shapes(b)}"
        yield _difference("inputs", _shapes(a), _shapes(b), message, blocking=True)
    if a.items_per_query != b.items_per_query:
        one, other = (each.known_items or "unknown" for each in (a, b))
        message = f"batch {one} against {other}"
        yield _difference("batch", a.batch, b.batch, message, blocking=True)


def _protocol(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    told = [record.conditions.get("protocol") for record in (a, b)]
    if any(fact is not None and fact.source == "unknown" for fact in told):
        message = "nobody recorded the protocol on one side"
        yield _difference("protocol", _text(told[0]), _text(told[1]), message)
    elif (one := protocol_of(a)) != (other := protocol_of(b)):
        message = f"different protocols: {one} against {other}"
        yield _difference("protocol", one, other, message, blocking=True)
    for key, what in (("gap_s", "gaps between queries"), ("rate_hz", "rates of arrival")):
        here, there = (gap_of(x) if key == "gap_s" else x.spec.rate_hz for x in (a, b))
        if here != there:
            message = f"different {what}: {here} against {there}"
            yield _difference(key, here, there, message, blocking=True)
    left, right = (precision_of(each) or "unknown" for each in (a, b))
    if left != right:
        yield _difference("precision", left, right, f"precision {left} against {right}")


def _conditions(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    for key in dict.fromkeys((*a.conditions, *b.conditions)):
        if key in ("precision", "batch", "protocol", "gap_s"):  # told by what ran, above
            continue
        left, right = a.conditions.get(key), b.conditions.get(key)
        if not _known(left) or not _known(right):
            if key in QUESTIONED_CONDITIONS:
                message = f"nobody recorded {key.replace('_', ' ')} on one side"
                yield _difference(key, _text(left), _text(right), message)
            continue
        assert left is not None
        assert right is not None
        if left.value == right.value:
            continue
        told = f"{key.replace('_', ' ')} {_text(left)} against {_text(right)}"
        message = BLOCKING_CONDITIONS.get(key, told)
        if "implied" in (left.source, right.source):
            message += " (as the version implies, not as anyone recorded)"
        blocking = key in BLOCKING_CONDITIONS
        yield _difference(key, _text(left), _text(right), message, blocking=blocking)


def _variables(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    """Tell what the environment set on one side only; some of it is another measurement."""
    if "measured" not in (a.provenance, b.provenance):
        return
    left, right = variables_of(a), variables_of(b)
    names = [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
    if not names:
        return
    one, other = (
        ", ".join(f"{name}={side[name]}" if name in side else f"no {name}" for name in names)
        for side in (left, right)
    )
    message = f"the environment sets {one} against {other}"
    yield _difference("variables", one, other, message, blocking=bool(deciding(names)))


def _machine(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    left, right = a.environment, b.environment
    for key, what in (("host", "machines"), ("cpu", "processors"), ("cpu_cores", "core counts")):
        one, other = getattr(left, key), getattr(right, key)
        if UNKNOWN in (one, other):
            message = "nobody recorded the machine" + ("" if one == other else " on one side")
            yield _difference(key, one, other, message)
        elif key == "host" and left.kind == right.kind:
            continue  # one label, or one kind of GPU and CPU: runners have a new name each time
        elif one is not None and other is not None and one != other:
            message = f"different {what}: {one} against {other}"
            yield _difference(key, one, other, message, blocking=True)
    if a.spec.threads != b.spec.threads and a.spec.runtime == b.spec.runtime:
        message = f"threads {a.spec.threads} against {b.spec.threads}"
        yield _difference("threads", a.spec.threads, b.spec.threads, message)
    passed = [arguments_of(record) for record in (a, b)]
    if passed[0] != passed[1] and a.spec.runtime == b.spec.runtime:
        one, other = (", ".join(f"{k}={v}" for k, v in x.items()) or "none" for x in passed)
        message = f"other arguments for the program: {one} against {other}"
        yield _difference("arguments", one, other, message)
    other_versions = {
        name: (left.versions[name], right.versions[name])
        for name in sorted(set(left.versions) & set(right.versions))
        if left.versions[name] != right.versions[name]
    }
    if other_versions:
        told = [f"{name} {one} against {other}" for name, (one, other) in other_versions.items()]
        one, other = (
            ", ".join(f"{name} {ends[side]}" for name, ends in other_versions.items())
            for side in (0, 1)
        )
        yield _difference("versions", one, other, f"other versions: {', '.join(told)}")


def _gpus(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    left, right = gpu_of(a), gpu_of(b)
    if left is None or right is None:
        return
    # Another board of one machine was chosen; runners of one kind bring their own each time.
    same_host = a.environment.host == b.environment.host
    for key, blocking in (
        ("name", True), ("uuid", same_host), ("power_limit_w", True), ("ecc", True),
        ("driver", False), ("persistence", False),
    ):  # fmt: skip
        one, other = getattr(left, key), getattr(right, key)
        if one is not None and other is not None and one != other:
            message = f"different GPU {key.replace('_', ' ')}: {one} against {other}"
            yield _difference(f"gpu_{key}", one, other, message, blocking=blocking)
    yield from _clocks(left, right)


def _clocks(left: Gpu, right: Gpu) -> Iterator[Difference]:
    one, other = left.sm_clock_hz, right.sm_clock_hz
    if not one or not other or abs(other / one - 1) <= CLOCK_TOLERANCE:
        return
    locked = bool(left.clocks_locked and right.clocks_locked)
    message = f"SM clocks differ: {one / 1e6:.0f} MHz against {other / 1e6:.0f} MHz"
    # Unlocked clocks read before a run say little about the run; locked ones decide it.
    message += "" if locked else " (read before the runs, and free to rise)"
    yield _difference("clock", one, other, message, blocking=locked)


def _difference(
    key: str, baseline: object, candidate: object, message: str, *, blocking: bool = False
) -> Difference:
    return Difference(
        key=key,
        baseline=str(baseline),
        candidate=str(candidate),
        blocking=blocking,
        message=message,
    )


def _accepted(each: Difference) -> Difference:
    return _difference(each.key, each.baseline, each.candidate, f"{each.message} (accepted)")


def _same_inputs(a: RunRecord, b: RunRecord) -> bool:
    """Say whether shapes and types are the same; a type that nobody recorded fits any."""
    if len(a.inputs) != len(b.inputs):
        return False
    pairs = list(zip(a.inputs, b.inputs, strict=True))
    types_fit = all(x.dtype == y.dtype or UNKNOWN in (x.dtype, y.dtype) for x, y in pairs)
    return types_fit and all(x.shape == y.shape for x, y in pairs)


def _shapes(record: RunRecord) -> str:
    shapes = (f"{'x'.join(map(str, each.shape))} {each.dtype}" for each in record.inputs)
    return ", ".join(shapes) or "not told"


def _known(fact: Fact | None) -> bool:
    return fact is not None and fact.source != "unknown" and fact.value is not None


def _text(fact: Fact | None) -> str:
    return "not told" if fact is None or fact.source == "unknown" else str(fact.value)
