"""Flags that mean the same everywhere, and the reading of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from trtbench.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_SHAPE = re.compile(r"(?P<name>.+):(?P<dims>\d+(?:x\d+)*)")


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Apply several options in the order in which help shows them."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


store_option = click.option(
    "--store", metavar="DIR|URL", help="Folder or URL of the store (default: from configuration)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)

precision_option = click.option(
    "--precision",
    type=click.Choice(["fp32", "tf32", "fp16", "bf16", "int8", "fp8", "best"]),
    help="Precision that a weakly typed builder may use.",
)

protocol_option = click.option(
    "--protocol",
    type=click.Choice(["serve", "pipeline", "gpu", "server", "first"]),
    help="How queries follow one another (default: serve; trtexec: pipeline).",
)

device_options = (
    click.option(
        "--cuda-graph",
        type=click.Choice(["off", "on", "auto"]),
        help="Launch queries as a CUDA graph (default: off).",
    ),
    click.option(
        "--transfers/--no-transfers", default=True, help="Copy inputs and outputs each time."
    ),
    click.option("--spin-wait", is_flag=True, help="Wait for the GPU by spinning."),
)

measure_options = stack(
    click.option("-r", "--runtime", metavar="NAME", help="What executes the model."),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME:1x3x224x224",
        help="Shape of one input; repeat for several.",
    ),
    click.option("--batch", type=int, help="Value of every dynamic leading dimension."),
    click.option("--warmup", metavar="TIME", help="Least warm-up, e.g. 500ms (default 200ms)."),
    click.option("--warmup-iterations", type=int, help="Least warm-up as a count."),
    click.option(
        "--until-steady/--no-until-steady",
        default=True,
        show_default=True,
        help="Go on warming up (10 s at most) until two windows agree.",
    ),
    click.option("--duration", metavar="TIME", help="Least measured time (default 3s)."),
    click.option("--iterations", type=int, help="Least measured iterations (default 10)."),
    click.option("--launches", type=int, help="Fresh processes to measure in (default 1)."),
    click.option(
        "--inputs", metavar="FILE", help="Inputs from .npz, .npy or a folder of raw binaries."
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of random inputs."),
    click.option("--threads", type=int, help="Threads within an operator (CPU runtimes)."),
    click.option("--device", metavar="NAME", help="cpu, cuda:0, ..."),
    protocol_option,
    click.option("--rate", metavar="RATE", help="Arrivals of the protocol server, e.g. 500/s."),
    click.option(
        "--arrivals",
        type=click.Choice(["poisson", "constant"]),
        default="poisson",
        show_default=True,
        help="How they are spread in time.",
    ),
    *device_options,
    click.option("--streams", type=int, default=1, show_default=True, help="Queries at a time."),
    click.option("--gap", metavar="TIME", help="Rest between queries, e.g. 5ms."),
    click.option(
        "--profile-index",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Optimization profile of the engine.",
    ),
    click.option(
        "--telemetry",
        is_flag=False,
        flag_value="100ms",
        metavar="[TIME]",
        help="Look at the GPU this often (100ms), in a pass of its own after the measurement.",
    ),
    click.option(
        "--lock-clocks",
        is_flag=False,
        flag_value="base",
        metavar="[base|max|MHZ]",
        help="Lock the GPU's clock while measuring (needs root), and free it afterwards.",
    ),
    precision_option,
    click.option(
        "--profile/--no-profile",
        default=None,
        help="Time single layers too (default: as the runtime does; trtexec: yes).",
    ),
    click.option(
        "--separate-profile-run/--no-separate-profile-run",
        default=True,
        show_default=True,
        help="Time layers in a pass of their own.",
    ),
    click.option(
        "--opt",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the runtime itself; repeat for several.",
    ),
    click.option("--python", metavar="PATH", help="Measure in another Python interpreter."),
    click.option("--timeout", metavar="TIME", help="Give up on a launch after this long."),
    click.option("--memory-limit", metavar="SIZE", help="Address space of the child, e.g. 8GiB."),
    click.option("--no-wait", is_flag=True, help="Fail at once when the device is in use."),
)


pair_options = stack(
    click.option(
        "-r",
        "--runtime",
        multiple=True,
        metavar="NAME",
        help="What executes the models: once for all sides, or once per side.",
    ),
    click.option(
        "--python",
        multiple=True,
        metavar="PATH",
        help="Interpreter: once for all sides, or once per side.",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME:1x3x224x224",
        help="Shape of one input; repeat for several.",
    ),
    click.option("--batch", type=int, help="Value of every dynamic leading dimension."),
    click.option(
        "--launches",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Fresh launches of both sides.",
    ),
    click.option(
        "--max-launches",
        type=int,
        default=40,
        show_default=True,
        help="Go on to so many while the answer is unclear.",
    ),
    click.option(
        "--pairs",
        type=click.IntRange(min=10),
        default=100,
        show_default=True,
        help="Iterations of each side per launch, in turn.",
    ),
    click.option(
        "--mode",
        type=click.Choice(["auto", "one-process", "lock-step", "launches"]),
        default="auto",
        show_default=True,
        help="How the sides take turns.",
    ),
    click.option(
        "--margin",
        metavar="PERCENT",
        default="2%",
        show_default=True,
        help="Within this, interval and all, two sides are the same.",
    ),
    click.option(
        "--accept",
        multiple=True,
        metavar="KEY",
        help="Compare in spite of this difference (tf32, batch, protocol, ...).",
    ),
    click.option("--warmup", metavar="TIME", help="Least warm-up of each launch."),
    click.option("--warmup-iterations", type=int, help="Least warm-up as a count."),
    click.option("--duration", metavar="TIME", help="Length of a launch (mode launches)."),
    click.option("--iterations", type=int, help="Iterations of a launch (mode launches)."),
    click.option("--inputs", metavar="FILE", help="Inputs from .npz, .npy or raw binaries."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of inputs and order."),
    click.option("--threads", type=int, help="Threads within an operator (CPU runtimes)."),
    click.option("--device", metavar="NAME", help="cpu, cuda:0, ..."),
    click.option(
        "--opt",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the runtime itself; repeat for several.",
    ),
    protocol_option,
    *device_options,
    precision_option,
    click.option("--timeout", metavar="TIME", help="Give up on a launch after this long."),
    click.option("--no-wait", is_flag=True, help="Fail at once when the device is in use."),
    click.option("--tag", "tags", multiple=True, metavar="NAME", help="Tag both runs."),
)


def shapes_from_flags(flags: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Read ``name:1x3x224x224``; a comma joins several, as in trtexec."""
    shapes: dict[str, tuple[int, ...]] = {}
    for flag in flags:
        for part in re.split(r",(?=[^,]*:)", flag):
            match = _SHAPE.fullmatch(part.strip())
            if not match:
                raise UsageError(
                    f"--shape {part} cannot be read", fix="write it like input:1x3x224x224"
                )
            shapes[match["name"]] = tuple(int(dim) for dim in match["dims"].split("x"))
    return shapes


def pairs_from_flags(flags: tuple[str, ...]) -> dict[str, str]:
    """Read ``key=value``."""
    pairs = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key:
            raise UsageError(f"--opt {flag} cannot be read", fix="write it like threads=2")
        pairs[key.strip()] = value
    return pairs
