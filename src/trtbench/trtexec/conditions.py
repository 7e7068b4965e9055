"""Under which conditions a logged run was timed: stated, implied by the version, or unknown."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.labels import batch_that_ran
from trtbench.domain.ran import SETTING_FLAGS
from trtbench.domain.result import Fact, Scalar
from trtbench.trtexec._log_values import LogRun, LogSection

UNKNOWN = Fact(value=None, source="unknown")


def conditions_from_log(run: LogRun) -> dict[str, Fact]:
    """Tell what a run's numbers depend on; keys as in ``RunRecord.conditions``."""
    transfers = _switch(
        run,
        label="Data transfers",
        on="--includeDataTransfers",
        off="--noDataTransfers",
        default=_transfers_by_major(run),
    )
    graph = _switch(
        run,
        label="CUDA Graph",
        on="--useCudaGraph",
        off="--noCudaGraph",
        default=_by_major(run, before_11=False, from_11=True),
    )
    fell_back = run.message("graph-capture-failed") is not None
    return {
        "transfers": transfers,
        "cuda_graph": Fact(value=False) if fell_back else graph,
        "cuda_graph_fell_back": UNKNOWN if graph.value is None else Fact(value=fell_back),
        "spin_wait": _switch(
            run,
            label="Spin-wait",
            on="--useSpinWait",
            off="--noSpinWait",
            default=_by_major(run, before_11=False, from_11=True),
        ),
        "streams": _streams(run),
        "gap_s": _gap(run),
        **_profile(run),
        "protocol": UNKNOWN if run.major is None else protocol_from_log(run, transfers, graph),
        "typing": _typing(run),
        "tf32": _tf32(run),
        "batch": _batch(run),
        "precision": _precision(run),
    }


def _implied(value: Scalar) -> Fact:
    return UNKNOWN if value is None else Fact(value=value, source="implied")


def _by_major(run: LogRun, *, before_11: bool, from_11: bool) -> bool | None:
    """Apply TensorRT 11's defaults: no transfers, CUDA graph on, spinning."""
    if run.major is None:
        return None
    return from_11 if run.major >= 11 else before_11


def _transfers_by_major(run: LogRun) -> bool | None:
    """Apply TensorRT 6's clock, which runs over enqueueing and waiting only, not copies."""
    early = run.major is not None and run.major <= 6
    return False if early else _by_major(run, before_11=True, from_11=False)


def _has_flag(run: LogRun, flag: str) -> bool:
    return any(word == flag or word.startswith(f"{flag}=") for word in run.arguments)


def _switch(run: LogRun, *, label: str, on: str, off: str, default: bool | None) -> Fact:
    """Read a switch from the dump of options, then the command line, then the version."""
    printed = (run.option(label) or "").split(" ")[0].lower()
    if printed in ("enabled", "disabled"):
        return Fact(value=printed == "enabled")
    # 11 accepts the flags of older versions and ignores them, so only its own count there.
    old_means_nothing = run.major is not None and run.major >= 11
    for flag, value in ((on, True), (off, False)):
        ignored = old_means_nothing and flag.startswith(("--use", "--noData"))
        if _has_flag(run, flag) and not ignored:
            return Fact(value=value)
    return _implied(default)


def _streams(run: LogRun) -> Fact:
    found = _number(run, ("Inference Streams", "Streams"), SETTING_FLAGS["streams"])
    return found or _implied(1 if run.major is not None else None)


def _gap(run: LogRun) -> Fact:
    """Find the rest between queries, which is told in milliseconds."""
    found = _number(run, ("Idle time", "Idle"), SETTING_FLAGS["gap_s"])
    if found is None or not isinstance(found.value, int):
        return _implied(0.0 if run.major is not None else None)
    return found.having(value=found.value / 1e3)


def _profile(run: LogRun) -> dict[str, Fact]:
    labels = ("Optimization Profile Index",)
    found = _number(run, labels, SETTING_FLAGS["profile_index"])
    return {} if found is None else {"profile_index": found}


def _number(run: LogRun, labels: Sequence[str], flags: Sequence[str]) -> Fact | None:
    """Read a whole number from the dump of options, then from the command line."""
    printed = [(run.option(label) or "").removesuffix("ms") for label in labels]
    words = (word.partition("=") for word in run.arguments)
    given = [value for flag, _, value in words if flag in flags]
    for text in (*printed, *given):
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return Fact(value=int(text))
    return None


def protocol_from_log(run: LogRun, transfers: Fact, graph: Fact) -> Fact:
    """Tell how queries followed one another; trtexec never says so itself.

    TensorRT 5 and 6 wait for every query; from 7 on the next one is enqueued before the last
    is awaited, unless ``--exposeDMA`` takes that overlap away. Without transfers it is ``gpu``
    where a CUDA graph was asked for too.
    """
    if transfers.value is None:
        return UNKNOWN
    early = run.major is not None and run.major <= 6
    exposed = (run.option("ExposeDMA") or "").startswith("Enabled")
    if early or exposed or _has_flag(run, "--exposeDMA"):
        return _implied("serve")
    return _implied("pipeline" if transfers.value or graph.value is False else "gpu")


def _loads(run: LogRun) -> bool:
    """Say whether an engine was loaded: then the options about building mean nothing."""
    return bool(run.option("Load engine")) or _has_flag(run, "--loadEngine")


def _typing(run: LogRun) -> Fact:
    printed = run.option("Precision") or ""
    if "strongly" in printed.lower() or _has_flag(run, "--stronglyTyped"):
        return Fact(value="strong")
    if run.major is not None and run.major >= 11:
        return _implied("strong")
    if _loads(run) or run.major is None:
        return UNKNOWN
    return Fact(value="weak") if run.facts.weak_typing_deprecated else _implied("weak")


def _tf32(run: LogRun) -> Fact:
    if _has_flag(run, "--noTF32"):
        return Fact(value=False)
    if run.major is not None and run.major < 7:
        return _implied(False)
    if _loads(run) or run.major is None:
        return UNKNOWN
    return Fact(value=True) if run.tf32_stated else _implied(True)


def _batch(run: LogRun) -> Fact:
    """Find the items in one query: a stated implicit batch, else what its inputs tell."""
    section = run.section("Inference Options") or run.section("Options") or LogSection(name="")
    printed = section.get("Batch") or section.get("batch") or ""
    number = int(printed) if printed.isascii() and printed.isdigit() and len(printed) < 10 else None
    if number is not None and number > 1:
        return Fact(value=number)
    inputs, outputs = (
        [each.shape for each in run.bindings if each.output is side] for side in (False, True)
    )
    size = batch_that_ran(inputs, asked=None, told=None, outputs=outputs)
    if size is not None:
        return _implied(size)
    explicit = printed.lower() == "explicit" or run.option("Max batch") == "explicit batch"
    return Fact(value=number) if number is not None and not explicit else UNKNOWN


def _precision(run: LogRun) -> Fact:
    """Find the precisions the builder was allowed; of a loaded engine nothing is known."""
    printed = run.option("Precision")
    if printed is None or _loads(run):
        return _legacy_precision(run)
    return Fact(value=printed.lower())


def _legacy_precision(run: LogRun) -> Fact:
    section = run.section("Options")
    if section is None or section.get("loadEngine") or section.get("engine"):
        return UNKNOWN
    allowed = [name for name in ("fp16", "int8") if section.get(name) is not None]
    return Fact(value="+".join(["fp32", *allowed]))
