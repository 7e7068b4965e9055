"""Flags that say where runs are measured, and the executor they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import stack
from trtbench.errors import UsageError

if TYPE_CHECKING:
    from trtbench.executors import Executor, Needs

executor_options = stack(
    click.option(
        "--executor",
        metavar="local|ray|ssh",
        help="Measure on every GPU of this machine, on a Ray cluster, or on hosts by ssh.",
    ),
    click.option("--address", metavar="HOST:PORT", help="Of the Ray cluster (default: its own)."),
    click.option(
        "--hosts",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Hosts for ssh, as TOML.",
    ),
    click.option(
        "--need",
        "needs",
        multiple=True,
        metavar="KEY=VALUE",
        help="What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.",
    ),
    click.option(
        "--beside",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="CPU runs at the same time on one machine; they disturb each other.",
    ),
)


@contextmanager
def executor_from_flags(flags: dict[str, Any]) -> Iterator[Executor | None]:
    """Open the executor the flags name for the length of the block; ``None`` without one."""
    if flags["executor"] is None:
        for name in ("address", "hosts"):
            if flags[name] is not None:
                fix = "--executor ray" if name == "address" else "--executor ssh"
                raise UsageError(f"--{name} says nothing without an executor", fix=fix)
        yield None
        return
    from trtbench.executors import Settings
    from trtbench.workflows.measure.remote import open_executor

    settings = Settings(address=flags["address"], hosts=flags["hosts"], beside=flags["beside"])
    executor = open_executor(flags["executor"], settings)
    try:
        yield executor
    finally:
        executor.close()


def needs_from_flags(words: tuple[str, ...]) -> Needs | None:
    """Read ``gpu=H100``, ``memory=16GiB`` and amounts of anything else."""
    if not words:
        return None
    from trtbench.executors import Needs
    from trtbench.units import bytes_from_text

    known: dict[str, Any] = {}
    resources: dict[str, float] = {}
    for word in words:
        key, equals, value = word.partition("=")
        try:
            if not (key and equals and value):
                raise ValueError
            if key == "gpu":
                known["gpu_type"] = value
            elif key in ("memory", "gpu-memory"):
                known[f"{key.replace('-', '_')}_bytes"] = bytes_from_text(value)
            else:
                resources[key] = float(value)
        except ValueError:
            raise UsageError(
                f"--need {word} cannot be read", fix="--need gpu=H100 --need memory=16GiB"
            ) from None
    return Needs(**known, resources=resources)
