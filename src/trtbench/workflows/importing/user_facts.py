"""What the user says about files, which wins over what they say themselves."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

from trtbench.domain.result import Environment, Fact, Gpu
from trtbench.domain.spec import ModelRef
from trtbench.errors import UsageError
from trtbench.trtexec.log import LogRun

_VERSION = re.compile(r"\d{1,2}(?:\.\d{1,4}){0,3}")


@dataclass(frozen=True, kw_only=True)
class Stated:
    """Facts that files cannot tell, or tell wrongly, as the user knows them."""

    batch: int | None = None
    engine: ModelRef | None = None
    warmup_s: float | None = None
    tags: tuple[str, ...] = ()
    gpu: str | None = None
    tensorrt: str | None = None
    date: datetime.datetime | None = None
    precision: str | None = None

    def words(self) -> Iterator[str]:
        """Name what was stated, for the notes of a run."""
        pairs = {"GPU": self.gpu, "TensorRT": self.tensorrt, "precision": self.precision}
        told = [f"{name} {value}" for name, value in pairs.items() if value]
        if self.date is not None:
            told.append(f"measured {self.date.isoformat(timespec='seconds')}")
        if told:
            yield f"stated on import: {', '.join(told)}"

    def told(self, log: LogRun) -> LogRun:
        """Put a stated version into what a log tells, so that its defaults are known."""
        return log.having(version=self.tensorrt) if self.tensorrt else log

    def environment(self, found: Environment) -> Environment:
        """Put a stated GPU into what the files tell of the machine."""
        if self.gpu is None:
            return found
        same = found.gpus and found.gpus[0].name == self.gpu
        gpus = found.gpus if same else (Gpu(name=self.gpu),)
        return found.having(gpus=gpus)

    def conditions(self, found: dict[str, Fact]) -> dict[str, Fact]:
        """Put a stated precision into the conditions."""
        if self.precision is None:
            return found
        return {**found, "precision": Fact(value=self.precision.lower())}

    def differing(self, *, gpu: str | None, version: str | None) -> Iterator[str]:
        """Say where the files tell otherwise."""
        if self.gpu and gpu and gpu != self.gpu:
            yield f"the GPU on record is {gpu}; --gpu {self.gpu} is used instead"
        if self.tensorrt and version and not _same_version(version, self.tensorrt):
            yield (
                f"the version on record is TensorRT {version}; "
                f"--tensorrt {self.tensorrt} is used instead"
            )


def version_from_user(text: str | None) -> str | None:
    """Read ``--tensorrt 8.5``."""
    if text is None or _VERSION.fullmatch(text):
        return text
    raise UsageError(f"{text!r} is not a version of TensorRT", fix="write it like 8.5 or 10.3.0")


def date_from_user(text: str | None) -> datetime.datetime | None:
    """Read ``--date 2024-05-17`` or ``2024-05-17T08:30``; without a zone it is this machine's."""
    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        return found if found.tzinfo else found.astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a date", fix="write it like 2024-05-17 or 2024-05-17T08:30"
        ) from None


def _same_version(one: str, other: str) -> bool:
    """Compare as far as both are given: 8.5 and 8.5.2 do not contradict."""
    return all(a == b for a, b in zip(one.split("."), other.split("."), strict=False))
