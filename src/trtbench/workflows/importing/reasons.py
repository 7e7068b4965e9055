"""Why a file became no part of a run, in the user's words."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.errors import InputError
from trtbench.trtexec.log import LogRun
from trtbench.units import text_from_seconds
from trtbench.workflows.importing.find import Unused
from trtbench.workflows.importing.look import FilePart
from trtbench.workflows.importing.match import Draft

_REASONS = {
    "graph": "layer information; no times or profile of these layers beside it",
    "excerpt": "an excerpt of a log; nothing was measured in it",
    "help": "the help text of trtexec",
    "onnx": "a model; to measure it: trtbench bench FILE",
    "timing_cache": "a timing cache of the builder; nothing was measured",
    "device": "attributes of a device; nothing was measured",
    "build_metadata": "the options of a build; nothing was measured",
    "profile_metadata": "made of a log that is here itself",
    "output": "output tensors; nothing was timed",
    "output_diff": "differences of outputs; no times, profile or log beside it",
    "percentiles": "percentiles without the series they were made of",
    "run_config": "a configuration; no times, profile or log beside it",
    "engine_metadata": "facts of an engine; no times, profile or log beside it",
}
KINDS = {
    "unknown": "not recognised as anything of trtexec's or the toolkits'",
    "archive": "an archive within an archive; unpack it, and import the folder",
    "empty": "empty",
    "log": "has words of trtexec's, but no run of it",
}


def broken_file(
    shown: str, kind: str, problem: InputError | OSError, *, named: bool = False
) -> Unused:
    """Say of a file what is wrong with it."""
    reason = str(problem) if isinstance(problem, InputError) else f"{problem.strerror or problem}"
    lines = [" ".join(line.split()) for line in reason.splitlines()]
    said = "; ".join(line for line in lines if line != f"file {shown}").removeprefix(f"{shown} ")
    return Unused(path=shown, kind=kind, reason=said, named=named, broken=True)


def reason_of(part: FilePart, draft: Draft, ready: Sequence[Draft]) -> str:
    """Say why a part was left over."""
    rivals = [d for d in ready if d.folder == draft.folder and d.key == draft.key]
    if len(rivals) > 1 and part.slot not in ("help", "build_log"):
        return f"nothing tells to which of the {len(rivals)} runs of this name it belongs"
    if rivals and part.slot in rivals[0].parts:
        return f"the run of this name has another: {rivals[0].parts[part.slot].file.path.name}"
    if rivals and part.slot == "graph":
        return "layer information of another engine: its layers are not those of the profile"
    if part.slot == "build_log":
        return _build(part.value)
    if part.slot == "calibration":
        return f"a calibration cache ({part.value}); nothing was measured"
    if part.slot == "plan":
        version = part.value.version or "unknown version"
        return f"an engine ({part.value.flavour} {version}); to measure it: trtbench bench FILE"
    return _REASONS.get(part.slot, "nothing beside it that it could belong to")


def _build(run: LogRun) -> str:
    seconds = run.facts.build_s
    took = f" in {text_from_seconds(seconds, digits=3)}" if seconds is not None else ""
    if run.timing_withheld:
        return "timing was not reported: the profiler was in the same pass"
    return f"an engine was built{took}; nothing was measured"
