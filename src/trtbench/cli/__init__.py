"""The command line: one verb per file; flags to spec to workflow to screen.

Makes no decision a Python user could not make. A verb's module has ``command`` and imports only
click and trtbench.errors at the top, so that ``trtbench --help`` stays quick.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pkgutil
import select
import shlex
import signal
import sys
from pathlib import Path

import click

from trtbench.boundary import clean_line, clean_text, mask
from trtbench.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNREAD,
    EXIT_USAGE,
    FULL,
    JobError,
    TrtbenchError,
    UsageError,
    write_error,
)
from trtbench.extras import missing_package

ON_MODELS = (
    "bench", "build", "check", "compare", "eval", "export", "gate", "inspect", "localize",
    "lottery", "profile", "quantize", "sweep",
)  # fmt: skip
"""Verbs that a word beside a model may have meant."""
MODEL_SUFFIXES = (".onnx", ".engine", ".plan", ".trt", ".pt", ".pth", ".ts", ".pt2")


class Verbs(click.Group):
    """The verbs are the modules of this folder, imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = {info.name for info in pkgutil.iter_modules(__path__) if info.name[0] != "_"}
        return sorted(name.rstrip("_").replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name.replace("-", "_")
        for module in (name, f"{name}_"):  # import_.py: some verbs are words of Python
            if (
                name.isidentifier()
                and importlib.util.find_spec(f"{__name__}.{module}")
                and name[:1] != "_"
            ):
                loaded = importlib.import_module(f"{__name__}.{module}")
                command: click.Command = loaded.command
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            from trtbench.errors import UsageError, near_miss

            if is_model(args[0]):
                raise _no_verb(args[0], args) from problem
            model = next(filter(is_model, args), None)
            known = ON_MODELS if model else self.list_commands(ctx)
            guess = near_miss(args[0].lower(), known) or ("bench" if model else None)
            rest = f" {shlex.join(args[1:])}" if model else ""
            fix = f"trtbench {guess}{rest}" if guess else "trtbench --help"
            if not guess and Path(args[0]).exists():
                word = shlex.quote(args[0])
                fix = f"trtbench inspect {word}, or trtbench import {word}"
            raise UsageError(f"there is no command {args[0]!r}", fix=fix) from problem


def _no_verb(model: str, args: list[str]) -> UsageError:
    return UsageError(
        f"what shall be done with {model}?",
        facts={"verbs": "bench, build, profile, check, compare, inspect, ..."},
        fix=f"trtbench bench {shlex.join(args)}",
    )


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from trtbench.version import __version__

    click.echo(f"trtbench {__version__}")
    ctx.exit()


def is_model(word: str) -> bool:
    """Tell a model from a verb, where somebody left the verb out."""
    named = word.partition(":")[0] in ("torchvision", "timm", "ultralytics", "torch.hub")
    return named or word.lower().endswith(MODEL_SUFFIXES)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_TRTBENCH_COMPLETE=bash_source trtbench)" '
    "(or zsh_source, fish_source).",
)
@click.option(
    "--version",
    is_flag=True,
    callback=_show_version,
    expose_value=False,
    is_eager=True,
    help="Show the version.",
)
def trtbench() -> None:
    """Build, benchmark, profile, check and compare TensorRT engines and the models they come from.

    \b
    Examples:
      trtbench demo                        the whole tool, no GPU needed
      trtbench bench model.onnx --batch 8  measure a model
      trtbench runs                        what was measured so far
      trtbench doctor                      what works here, how to get the rest
    """


def main() -> None:
    """Run the command line and leave with the right status."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without µ gets a question mark
            stream.reconfigure(errors="replace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, _terminate)
    sys.exit(_run_while_read(sys.argv[1:]))


def _run_while_read(arguments: list[str]) -> int:
    """Run one command; where the reader of its output leaves (``| head``), end as other tools do.

    What is written to a pipe that nobody reads fails in many places, and libraries make a status
    of it and put another file in its place: a copy of the descriptor tells whose fault it was.
    """
    copies = {number: os.dup(number) for number in (1, 2)}
    try:
        status = run(arguments)
        sys.stdout.flush()
        return status
    except (OSError, SystemExit) as problem:
        unread = [number for number, copy in copies.items() if _is_unread(copy)]
        if isinstance(problem, OSError) and problem.errno in FULL:
            show_error(write_error("the output", problem))
        elif not unread:
            raise
        for number in unread or [1]:  # what is still in its buffer goes nowhere, and quietly
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        return EXIT_UNREAD if unread else EXIT_FAILED


def _open_streams() -> None:
    """Put a stream in the place of one that was closed (``>&-``): no file may take its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _is_unread(number: int) -> bool:
    pipe = select.poll()
    pipe.register(number, 0)
    return any(event & select.POLLERR for _, event in pipe.poll(0))


def run(arguments: list[str]) -> int:
    """Run one command; errors of the user's are shown in our form, only a bug has a traceback."""
    try:
        # Without a word, the help: newer releases of click would call it an error.
        asked = arguments or ["--help"]
        result = trtbench.main(asked, prog_name="trtbench", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except TrtbenchError as problem:
        show_error(problem)
        return problem.exit_status
    except ModuleNotFoundError as problem:
        told = missing_package(problem)
        if told is None:
            raise
        show_error(told)
        return told.exit_status
    except click.NoSuchOption as problem:
        model = next(filter(is_model, arguments), None)
        of_no_verb = problem.ctx is not None and problem.ctx.parent is None
        lost = model if of_no_verb and not set(ON_MODELS).intersection(arguments) else None
        show_error(_no_verb(lost, arguments) if lost else _no_flag(problem))
        return EXIT_USAGE
    except click.ClickException as problem:
        _say_error(f"{problem.format_message()}\nfix: {_way_out(problem)}")
        return EXIT_USAGE if isinstance(problem, click.UsageError) else EXIT_FAILED
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: nothing half-done was kept", err=True)
        return EXIT_INTERRUPTED


ELSEWHERE = (
    "bench", "build", "check", "compare", "eval", "gate", "profile", "quantize", "sweep"
)  # fmt: skip
"""Verbs that other machines do, too."""
ELSEWHERE_FLAGS = ("--executor", "--hosts", "--address", "--need", "--wait-node", "--beside")


def _no_flag(problem: click.NoSuchOption) -> UsageError:
    """Say that a verb has no such flag; one that is done here only has none for other machines."""
    from trtbench.cli._commands import tasks_with

    verb = problem.ctx.command.name if problem.ctx else None
    if problem.option_name not in ELSEWHERE_FLAGS or verb in ELSEWHERE:
        axis = _axis(problem.option_name) if verb == "sweep" else None
        tasks = tasks_with(problem.option_name, problem.ctx) if problem.ctx and not axis else []
        if tasks:
            return UsageError(
                f"{problem.option_name} is a flag of a task that --task does not name",
                facts={"tasks that have it": ", ".join(tasks)},
                fix=f"--task {tasks[0]} {problem.option_name} ...",
            )
        fix = f"--axis {axis}=VALUE" if axis else "add --help to the command to see its flags"
        return UsageError(problem.format_message(), fix=fix)
    return UsageError(
        f"{verb} is done on this machine: it takes no {problem.option_name}",
        facts={"done elsewhere, too": " ".join(ELSEWHERE)},
        fix="trtbench sweep --executor quantizes and builds there and --fetch-engines brings the "
        "files back"
        if verb == "export"
        else "give the command on the machine that is meant",
    )


def _axis(flag: str) -> str | None:
    """Name the axis of a sweep that a flag of other verbs is."""
    from trtbench.workflows.sweep.matrix import FLAGS

    name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
    return name if name in FLAGS else None


def show_error(problem: TrtbenchError) -> None:
    """Write an error to stderr: what is wrong, the facts, the end of a log, the way out."""
    if isinstance(problem, JobError) and problem.log_tail:
        click.echo(f"the last {len(problem.log_tail)} lines of its log:", err=True)
        for line in problem.log_tail:
            click.echo(f"  | {mask(clean_line(line))}", err=True)
    _say_error(str(problem))


def _way_out(problem: click.ClickException) -> str:
    """Name a command that works where an argument is missing, else where the flags are listed."""
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    if context is None:
        return "trtbench --help"
    if isinstance(context.command, click.Group):  # a word that it does not know
        return (
            f"{context.command_path}, or with {', '.join(context.command.list_commands(context))}"
        )
    verb = context.command_path
    lines = map(str.strip, (context.command.help or "").splitlines())
    first = next((line for line in lines if line.startswith(f"{verb} ")), None)
    missing = isinstance(problem, click.MissingParameter)
    if missing and first and not first.endswith("\\"):
        return f"write it like {first}"
    return "add --help to the command to see its flags"


def _say_error(text: str) -> None:
    label = "error:"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        label = click.style(label, fg="red", bold=True)
    click.echo(f"{label} {mask(clean_text(text))}", err=True)


def _terminate(number: int, frame: object) -> None:
    raise KeyboardInterrupt
