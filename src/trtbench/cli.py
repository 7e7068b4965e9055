"""The command line: turns the verbs into commands, and prints errors in one form."""

from __future__ import annotations

import codecs
import importlib
import io
import itertools
import os
import pkgutil
import re
import select
import shlex
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench import verbs
from trtbench.core import errors
from trtbench.core.errors import TrtbenchError, UsageError, near_miss
from trtbench.core.plugins import missing_package
from trtbench.core.safety import clean_line, clean_text, mask, remember_secrets
from trtbench.requests import fields
from trtbench.requests.fields import Argument, Option, RequestField, VerbRequest, fields_of
from trtbench.verbs._verb import AnyVerb, Caller, help_parts
from trtbench.version import __version__

if TYPE_CHECKING:
    from trtbench.tasks.contract import Flag

IMAGES_TASK = "classification"  # the task that prepares images by default
FEW_OPTIONS = 12  # of a command, which its help does not group
TASK, ADDED = "trtbench.task", "trtbench.added"  # keys of a context: the task, and its flags


def verb_modules() -> dict[str, str]:
    """Return the modules of the verbs by command; Python keywords end in _: ``import_.py``."""
    names = sorted(info.name for info in pkgutil.iter_modules(verbs.__path__))
    return {name.rstrip("_").replace("_", "-"): name for name in names if name[0] != "_"}


def verb_named(name: str) -> AnyVerb | None:
    """Import a verb by its name on the command line."""
    module = verb_modules().get(name)
    return importlib.import_module(f"{verbs.__name__}.{module}").verb if module else None


OLD_VERBS = {
    "layers": ["profile"],
    "why": ["diff", "--why"],
    "export-runs": ["runs", "export"],
    "lottery": ["compare", "--builds", "5"],
    "explain": ["compare", "--why"],
}


class Verbs(click.Group):
    """The group of all verbs: the modules of their folder, imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(verb_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = verb_named(cmd_name)
        return command_from_verb(cmd_name, verb) if verb else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs with the first lines of their files, without importing them."""
        rows = []
        for name, module in verb_modules().items():
            with open(Path(verbs.__path__[0], f"{module}.py"), encoding="utf-8") as text:
                rows.append((name, text.readline().strip().strip('"')))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = [*OLD_VERBS.get(args[0], args[:1]), *args[1:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            from trtbench.models.identity import SUFFIXES
            from trtbench.models.torch_models import is_library_model

            if is_library_model(args[0]) or Path(args[0]).suffix.lower() in SUFFIXES:
                raise UsageError(
                    f"no command given for {args[0]}",
                    facts={"commands": "bench, build, profile, check, compare, inspect, ..."},
                    fix=f"trtbench bench {shlex.join(args)}",
                ) from problem
            words = self.list_commands(ctx)
            known = ((word, verb_named(word)) for word in words)
            groups = [word for word, verb in known if verb and args[0] in (verb.subcommands or ())]
            guess = near_miss(args[0].lower(), words) or "--help"
            guess = shlex.join([groups[0], *args]) if groups else guess
            message = f"there is no command {args[0]!r}"
            raise UsageError(message, fix=f"trtbench {guess}") from problem


SCHEMAS = {
    "run.json": "core.run:AnyRecord",
    "scores.json": "core.run:Scores",
    "sweep.toml": "sweep.matrix:Matrix",
    "hosts.toml": "executors.ssh:HostsFile",
    "trtbench.toml": "requests.settings:ConfigFile",
}


def _show_schema(ctx: click.Context, flag: click.Parameter, name: str | None) -> None:
    """Print the JSON Schema of a file, derived from the type that reads it."""
    if not name or ctx.resilient_parsing:
        return
    import msgspec

    from trtbench.verbs._screen import print_json

    errors.refuse_unknown(name, SCHEMAS, f"{name} has no schema", flag="--json-schema")
    module, _, kind = SCHEMAS[name].partition(":")
    made = msgspec.json.schema(getattr(importlib.import_module(f"trtbench.{module}"), kind))
    # JSON writes a number that is not finite as null.
    text = msgspec.json.encode({"title": name, **made})
    text = text.replace(b'"type":"number"', b'"type":["number","null"]')
    dialect = "https://json-schema.org/draft/2020-12/schema"
    print_json({"$schema": dialect, **msgspec.json.decode(text)})
    ctx.exit()


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_TRTBENCH_COMPLETE=bash_source trtbench)" '
    "(or zsh_source, fish_source).",
)
@click.version_option(__version__, message="trtbench %(version)s", help="Show the version.")
@click.option(
    "--json-schema",
    metavar="FILE",
    callback=_show_schema,
    expose_value=False,
    is_eager=True,
    help="Print the JSON Schema of run.json, scores.json, sweep.toml, hosts.toml or trtbench.toml.",
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


# From a verb to a command


class VerbCommand(click.Command):
    """The command of a verb; ``--task`` adds the flags of that task."""

    def __init__(self, verb: AnyVerb, fields: list[RequestField], **named: Any) -> None:
        super().__init__(**named)
        self.verb, self.fields = verb, {field.name: field for field in fields}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        own, rest = args[:end], args[end:]
        names = fields.former_names(self.verb.request)
        former = {f"--{name}": each.flag for name, each in names.items()}
        own = [re.sub(r"^--[\w-]+", lambda m: former.get(m[0], m[0]), word) for word in own]
        if self.verb.joins_dims:
            own = joined_dims(own)
        if self.verb.task:
            # The flags of a task must be known before click reads the others.
            spread = [part for word in own for part in word.split("=", 1)]
            named = [b for a, b in itertools.pairwise(spread) if a == "--task"]
            if named or "--data" in spread:
                ctx.meta[TASK] = named[0] if named else _stated_task(spread)
        return super().parse_args(ctx, [*own, *rest])

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = list(super().get_params(ctx))
        task = ctx.meta.get(TASK)
        if task is None:
            return params
        taken = {name for param in params for name in param.opts}
        added = [flag for flag in self.flags_of(task) if f"--{flag.name}" not in taken]
        ctx.meta[ADDED] = [flag.key for flag in added]
        return [*params[:-1], *map(_task_option, added), params[-1]]  # --help stays last

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups, those that matter most first; few options are one list."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in fields.GROUPS}
        for param in self.get_params(ctx):
            name, field = fields.OUTPUT, self.fields.get(param.name or "")
            if field is not None and isinstance(param, click.Option):
                name, param.help = field.group, field.help
            elif param.name in ctx.meta.get(ADDED, ()):
                name = f"Task {ctx.meta[TASK]}"
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                groups.setdefault(name, []).append(record)
        rows = [row for group in groups.values() for row in group]
        shown = groups if len(rows) > FEW_OPTIONS else {fields.GROUPS[0]: rows}
        for name, own in shown.items():
            if own:
                with formatter.section(name):
                    formatter.write_dl(own)

    def flags_of(self, task: str) -> list[Flag]:
        from trtbench.tasks import TASKS

        flags = TASKS.load(task).FLAGS
        return [flag for flag in flags if flag.preprocessing or self.verb.task != "images"]


def _stated_task(words: list[str]) -> str:
    """Return the task that a model among the words states, else the one for images."""
    from trtbench.core.spec import ModelRef
    from trtbench.models.identity import SUFFIXES
    from trtbench.tasks._feed import settled_task

    kinds = {word: SUFFIXES.get(Path(word).suffix.lower()) for word in words}
    models = [ModelRef(path=word, format=kind) for word, kind in kinds.items() if kind]
    return settled_task(None, {}, models)[0] or IMAGES_TASK


def command_from_verb(name: str, verb: AnyVerb) -> click.Command:
    prose, examples, _ = help_parts(verb.text)
    fields = [*fields_of(verb.request), *fields_of(verb.view)]
    named: dict[str, Any] = {
        "name": name,
        "short_help": prose.splitlines()[0] if prose else "",
        "help": f"{prose}\n\n\b\nExamples:\n{examples}" if examples else prose,
        "params": [parameter(field) for field in fields if field.name != "settings"],
        "callback": lambda **typed: _call(verb, typed),
    }
    if not verb.subcommands:
        return VerbCommand(verb, fields, **named)
    group = click.Group(invoke_without_command=True, **named)
    for word, each in verb.subcommands.items():
        group.add_command(command_from_verb(word, each))
    return group


def _call(verb: AnyVerb, typed: dict[str, object]) -> None:
    from trtbench import one_thread as one_thread  # before numpy is used
    from trtbench.verbs._screen import ProgressDisplay, say

    context = click.get_current_context()
    request = request_from_flags(verb.request, typed)
    view = request_from_flags(verb.view, typed)
    context.obj = getattr(request, "store", None)
    if context.invoked_subcommand is not None:
        return
    command = shlex.join(["trtbench", *sys.argv[1:]])
    caller = Caller(command=command, say=say, progress=ProgressDisplay, on_terminal=True)
    for one in verb.each(request, view) if verb.each else [request]:
        if verb.plan is not None and getattr(view, "dry_run", False):
            verb.plan(one, view, caller)
            continue
        status = None
        try:
            result = verb.run(one, caller)
            with caller.writing_result():
                status = verb.show(result, one, view) if verb.show is not None else None
        finally:
            for line in caller.closing:
                say(line)
            # One disk has one error; the one that says which file is the more useful.
            known = sorted(caller.unwritten, key=lambda each: len(each.facts))
            for problem in {each.message: each for each in known}.values():
                status = show_error(problem)
        if status:
            context.exit(status)


def request_from_flags(request: type[VerbRequest], typed: dict[str, object]) -> VerbRequest:
    """Build a request from the values that click parsed; they are removed from ``typed``."""
    values: dict[str, object] = {}
    context = click.get_current_context()
    fields = fields_of(request)
    for field in fields:
        given = typed.pop(field.name, None)
        if given is None and field.name == "store" and context.parent is not None:
            given = context.parent.obj  # of the group: runs --store DIR show
        if given is None:  # the default applies
            continue
        kind = field.about.kind
        if kind is not None and kind.read is not None:
            assert isinstance(given, tuple)
            given = kind.read(given)
        elif isinstance(field.about, Option) and field.about.per_side:
            given = given or None
        values[field.name] = given
    if any(field.name == "settings" for field in fields) and context.meta.get(ADDED):
        given = {name: typed.pop(name) for name in context.meta[ADDED]}
        default = click.core.ParameterSource.DEFAULT  # the model may state another value
        values["settings"] = {
            k: v for k, v in given.items() if context.get_parameter_source(k) is not default
        }
    return request(**values)


def joined_dims(args: list[str]) -> list[str]:
    """Join the numbers after ``--input-shape``: ``-1 3 224`` becomes ``-1x3x224``."""
    joined: list[str] = []
    rest = list(args)
    while rest:
        joined.append(rest.pop(0))
        if joined[-1] == "--input-shape":
            dims = list(itertools.takewhile(re.compile(r"-1|\d+").fullmatch, rest))
            del rest[: len(dims)]
            joined += ["x".join(dims)] if dims else []
    return joined


# From a field to a parameter


def parameter(field: RequestField) -> click.Parameter:
    about = field.about
    many = field.item is not None
    if isinstance(about, Argument):
        return click.Argument(
            [field.name], type=click.UNPROCESSED if about.rest else _type(field),
            nargs=-1 if many else 1,
            required=about.needed and (many or field.is_required) and not about.rest,
            metavar=f"[{about.metavar}]..." if about.rest else about.metavar,
        )  # fmt: skip
    names, default = [*field.flags, field.name], None if field.is_required else field.default
    named: dict[str, Any] = {"help": about.help}
    if field.type is bool:
        if "/" in field.flags[-1]:
            named |= {"default": default, "show_default": default is not None}
        else:
            named["is_flag"] = True
            if default is True:  # --no-wait has no positive form
                named["callback"] = lambda context, option, value: not value
        return click.Option(names, **named)
    kind = about.kind
    named["metavar"] = about.metavar or (kind.metavar if kind and kind is not fields.FILE else None)
    if default not in (None, (), {}):
        named |= {"default": default, "show_default": True}
    several = many or about.per_side or (kind is not None and kind.read is not None)
    named |= {"type": _type(field), "multiple": several, "required": field.is_required}
    if about.bare is not None:
        return ValueIfAny(names, is_flag=False, flag_value=about.bare, **named)
    return click.Option(names, **named)


def _type(field: RequestField) -> object:
    if field.choices:
        return click.Choice(field.choices)
    if field.about.kind is fields.FILE:
        return click.Path(path_type=Path)
    plain = field.item if field.item is not None else field.type
    return int if plain is int else float if plain is float else str


def _task_option(flag: Flag) -> click.Option:
    names, default = [f"--{flag.name}", flag.key], flag.default
    kinds: dict[str, type] = {"text": str, "whole": int, "number": float, "switch": bool}
    if flag.kind == "switch":
        names[0] += f"/--no-{flag.name}"
        default = bool(flag.default)
    kind = click.Choice(flag.choices) if flag.choices else kinds[flag.kind]
    return click.Option(
        names, type=kind, default=default, show_default=default is not None, help=flag.help
    )


class ValueIfAny(click.Option):
    """``--telemetry``, ``--telemetry 50ms``: a word that cannot be the value is an argument."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            option = parser._long_opt[name]
            option.process = partial(self._process, option.process)

    def _process(self, process: Callable[[object, Any], None], value: object, state: Any) -> None:
        is_value = re.compile(r"[-+]?[\d.]+\s*[a-zµ]*|[a-z]+", re.IGNORECASE).fullmatch
        if isinstance(value, str) and not is_value(value):
            state.rargs.insert(0, value)
            value = self.flag_value
        process(value, state)


# Running a command

PLAIN = {**dict(zip("µ·−–…×★Δ", "u|--~x*D", strict=True)), "±": "+/-", "→": "->"}
"""What a terminal without these characters shows: a unit and a sign must not get lost."""


def _plain_text(problem: UnicodeError) -> tuple[str, int]:
    """Replace what the encoding of a stream lacks."""
    assert isinstance(problem, UnicodeEncodeError)
    lacking = problem.object[problem.start : problem.end]
    return "".join(PLAIN.get(each, "?") for each in lacking), problem.end


codecs.register_error("trtbench.plain", _plain_text)


def main() -> None:
    """Run the command line and exit with its status."""
    # A stream that was closed (``>&-``) is replaced: no other file may get its descriptor.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="trtbench.plain")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, signal.default_int_handler)
    # When the reader of the output exits (``| head``), writing fails in many places, and libraries
    # turn that into a status or replace the stream: a copy of it shows whether its reader is gone.
    copies = {number: os.dup(number) for number in (1, 2)}
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except (OSError, SystemExit) as problem:
        unread = []
        for number, copy in copies.items():
            pipe = select.poll()
            pipe.register(copy, 0)
            if any(event & select.POLLERR for _, event in pipe.poll(0)):
                unread.append(number)
        if isinstance(problem, OSError) and problem.errno in errors.FULL:
            show_error(errors.write_error("the output", problem))
        elif not unread:
            raise
        for number in unread or [1]:  # what is still buffered is dropped quietly
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        status = errors.EXIT_UNREAD if unread else errors.EXIT_FAILED
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command and show its errors; only a bug has a traceback."""
    for word in arguments:
        remember_secrets(word)
    try:
        # Without arguments, the help: newer releases of click would report an error.
        given = arguments or ["--help"]
        result = trtbench.main(given, prog_name="trtbench", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except TrtbenchError as problem:
        return show_error(problem)
    except ModuleNotFoundError as problem:
        missing = missing_package(problem)
        if missing is None:
            raise
        return show_error(missing)
    except click.UsageError as problem:
        return show_error(_error_from_click(problem, arguments))
    except click.ClickException as problem:
        return show_error(TrtbenchError(problem.format_message(), fix="trtbench --help"))
    except (KeyboardInterrupt, click.Abort) as problem:  # click replaces the first
        kept = str(problem.__cause__ or problem) or "no unfinished results were kept"
        click.echo(f"interrupted: {kept}", err=True)
        return errors.EXIT_INTERRUPTED


def _error_from_click(problem: click.UsageError, arguments: list[str]) -> UsageError:
    """Return the error for a wrong command line, with a fix or a pointer to --help."""
    message, context = problem.format_message(), problem.ctx
    if context is None:
        return UsageError(message, fix="trtbench --help")
    command, path = context.command, context.command_path
    fix = "add --help to the command to see its flags"
    if isinstance(problem, click.NoSuchOption):
        flag = problem.option_name
        name = flag.removeprefix("--").removeprefix("no-")
        if command.name == "sweep":
            from trtbench.sweep.matrix import FLAGS

            if (axis := name.replace("-", "_")) in FLAGS:
                return UsageError(message, fix=f"--axis {axis}=VALUE")
        values = (word.partition("=")[2] for word in arguments if word.startswith(f"{flag}="))
        given = next(values, "")
        if found := _from_trtexec(flag, given, getattr(command, "verb", None), command.name):
            return found
        if name == "expect" and any("--metric" in param.opts for param in command.params):
            return UsageError(message, fix=f"--metric {shlex.quote(given or 'RULE')}")
        if isinstance(command, VerbCommand) and command.verb.task:
            from trtbench.tasks import TASKS

            names = sorted(TASKS.names(), key=lambda each: each != IMAGES_TASK)
            tasks = [each for each in names if any(name == f.name for f in command.flags_of(each))]
            if tasks:
                message = f"{flag} is a flag of a task that --task does not name"
                facts = {"tasks that have it": ", ".join(tasks)}
                return UsageError(message, facts=facts, fix=f"--task {tasks[0]} {flag} ...")
    elif isinstance(command, click.Group):  # an unknown subcommand
        fix = f"{path}, or with {', '.join(command.list_commands(context))}"
    elif isinstance(problem, click.MissingParameter) or "extra argument" in message:
        lines = map(str.strip, (command.help or "").splitlines())
        first = next((line for line in lines if line.startswith(f"{path} ")), "\\")
        fix = fix if first.endswith("\\") else f"write it like {first}"
    elif isinstance(problem, click.BadParameter) and isinstance(problem.param, click.Option):
        param, word = problem.param, problem.message.partition(" is not ")[0].strip("'")
        if isinstance(param.type, click.Choice):
            words = [str(each) for each in param.type.choices]
            fix = f"{param.opts[-1]} {near_miss(word.lower(), words) or '|'.join(words)}"
        elif param.name == "batch" and "," in word:
            fix = f"one batch here; trtbench sweep MODEL --batch {word} measures each"
    return UsageError(message, fix=fix)


def _from_trtexec(
    flag: str, word: str, typed: AnyVerb | None, here: str | None
) -> UsageError | None:
    """Return what to type instead of ``flag=word`` of trtexec, to a verb or none; or ``None``."""
    from trtbench.trtexec.version import FLAG_VERSIONS, OTHER_FLAGS

    message = f"{flag} is a flag of trtexec"
    own = {field.name: field for field in fields_of(typed.request)} if typed else {}
    model = next((each for each in own.values() if each.about.travels == "model"), None)
    for name in ("", "bench", "build"):
        verb = verb_named(name) if name else typed
        for field in fields_of(verb.request) if verb else ():
            alike = field.flags if isinstance(field.about, Option) and flag in FLAG_VERSIONS else ()
            known = (word.partition("=") for word in (*field.about.trtexec.split(), *alike))
            value = next((value for word, _, value in known if word == flag), None)
            if value is None:
                continue
            if field.name != "data" and flag != "--exportTimes":  # other files than trtexec's
                value = _with_value(value, word)
            text = as_typed(field, value)
            given = value or text.partition(" ")[2] or "on"
            if isinstance(field.about, Argument):
                text = as_typed(model, value) if model else f"trtbench {name} {text}"
            # Of another verb, --output is another file and --opt has other names.
            elif not name or (field.name in own and field.name not in ("output", "options")):
                text = as_typed(own[field.name], value)
            elif field.name == here:
                text = f"leave it out: trtbench {here} does that"
            elif "axis" in own and field.about.axis:
                text = f"--axis {'build.' if name == 'build' else ''}{field.name}={given}"
            else:
                is_setting = name == "build" and "build" in own and field.name not in own
                setting = f"--build {field.name}={given}, or " if is_setting else ""
                text = f"{setting}trtbench {name} MODEL {text}"
            return UsageError(message, fix=text)
    if flag in FLAG_VERSIONS or flag in OTHER_FLAGS or re.match(r"--[a-z]+[A-Z]", flag):
        whole = shlex.quote(f"{flag}={word}" if word else flag)
        words = f"trtbench {here if 'extra_args' in own else 'bench'} MODEL -r trtexec -- {whole}"
        fix = f"{f'--args={whole}' if 'args' in own else words}, which passes it on"
        return UsageError(f"{message}, and has no counterpart in trtbench", fix=fix)
    return None


def _with_value(known: str, word: str) -> str:
    """Return the value of a counterpart of a flag of trtexec, with the value that was typed.

    A ``known`` value that begins with a digit has the unit of the flag: ``200ms``.
    """
    key, equals, _ = known.partition("=")
    if not word or (known and not equals and not known[0].isdigit()):
        return known
    if equals:
        return f"{key}={shlex.quote(word)}"
    return shlex.quote(word) + (known.lstrip("0123456789.") if word[-1].isdigit() else "")


def as_typed(field: RequestField, value: str) -> str:
    """Return a flag with a value, or with what stands for one; an argument has no flag."""
    about = field.about
    if isinstance(about, Argument):
        return f"{value or (about.metavar or '').strip('[].')}, without a flag"
    if field.type is bool:
        off = field.flags[-1].partition("/")[2] or f"without {field.flag}"
        return off if value == "off" else field.flag
    metavar = about.metavar or (about.kind.metavar if about.kind else "N")
    many = about.kind in (fields.SHAPES, fields.PROFILES)
    given = value.split(",") if value and many else [value or metavar]
    return " ".join(f"{field.flag} {each}" for each in given)


def show_error(problem: TrtbenchError) -> int:
    """Print an error to stderr (end of a log, message, facts, fix); returns the exit status."""
    if problem.log_tail:
        click.echo(f"the last {len(problem.log_tail)} lines of its log:", err=True)
        for line in problem.log_tail:
            click.echo(f"  | {mask(clean_line(line))}", err=True)
    label = "error:"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        label = click.style(label, fg="red", bold=True)
    click.echo(f"{label} {mask(clean_text(str(problem)))}", err=True)
    return problem.exit_status
