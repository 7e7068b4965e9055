"""What a verb is: a request, a function that runs it, and a function that shows the result.

Each file in this folder is a verb. It has ``run(request, caller) -> result``, which the command
line, Python and other machines call, ``show(result, request, view)`` for the terminal, and
``verb``, which names them; its docstring is the help of the command and of the Python function.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar

from trtbench.core.errors import StoreError
from trtbench.requests.fields import (
    OUTPUT,
    VerbRequest,
    fields_of,
    former_names,
    option,
    signature_of,
)

if TYPE_CHECKING:
    from trtbench.requests.execution import Execution, Listener
    from trtbench.requests.fields import StoreFields, TimeoutFields
    from trtbench.requests.settings import Config
    from trtbench.store.store import Store

P = ParamSpec("P")
R = TypeVar("R", bound=VerbRequest)
T = TypeVar("T")

PATIENCE_S = 2.0  # a Python function that takes less shows no progress


def _no_progress(title: str) -> AbstractContextManager[Listener]:
    from trtbench.requests.execution import silent

    return nullcontext(silent)


def _python_progress(title: str) -> AbstractContextManager[Listener]:
    """Show the progress of long work in a Python program on a terminal, or in a notebook."""
    from trtbench.verbs._screen import ProgressDisplay, is_watched

    return ProgressDisplay(title, patience_s=PATIENCE_S) if is_watched() else _no_progress(title)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """How progress and messages reach the caller of a verb; the default is a Python program."""

    command: str | None = None
    say: Callable[[str], None] = lambda text: None
    progress: Callable[[str], AbstractContextManager[Listener]] = _no_progress
    on_terminal: bool = False
    closing: list[str] = dataclasses.field(default_factory=list)
    """Messages that follow the result."""
    unwritten: list[StoreError] = dataclasses.field(default_factory=list)
    """Errors that follow the result: what could not be written of it."""

    def settings(self, store: str | Path | None = None) -> Config:
        """Load the settings; what a project's file sets is printed when it is new to the user."""
        from trtbench.requests.settings import load_config

        config = load_config(store=store)
        for line in config.unseen:
            self.say(f"{line} (shown once)")
        return config

    def store(self, config: Config, *, at_once: bool = True) -> Store:
        """Open the store that the settings name, now or when it is first used."""
        from trtbench.requests.settings import open_store

        return open_store(config, tell=lambda line: self.say(f"store: {line}"), at_once=at_once)

    def store_and_settings(self, request: StoreFields) -> tuple[Store, Config]:
        config = self.settings(request.store)
        return self.store(config), config

    def keep(self, problem: StoreError) -> None:
        """Keep the error of a result that could not be written, until the result is shown."""
        if not self.on_terminal:
            raise problem
        self.unwritten.append(problem)

    def writing_result(self) -> AbstractContextManager[None]:
        """Write files of a result that is shown whether or not they can be written."""
        from trtbench.requests.execution import reporting_unwritten

        return reporting_unwritten(self.keep)

    @contextmanager
    def executing(
        self,
        request: TimeoutFields,
        config: Config,
        title: str | None,
        *,
        runtime: str | None = None,
    ) -> Iterator[Execution]:
        """Open the executor of a request, and show progress under a title during the block."""
        from trtbench.requests.execution import execution_from_request, opened_executor

        with _no_progress("") if title is None else self.progress(title) as listen:
            execution = execution_from_request(
                request, config, runtime=runtime, command=self.command, listen=listen
            )
            with opened_executor(request) as executor:
                yield replace(execution, executor=executor, on_unwritten=self.keep)


class View(VerbRequest, group=OUTPUT):
    """Options of the command line that Python functions do not have."""

    _usual_group = OUTPUT


class JsonView(View):
    """How the result is printed."""

    as_json: bool = option(False, "Print one JSON document.", ("--json",))


class BriefView(JsonView):
    """How the result is printed, and how much of it."""

    verbose: bool = option(False, "Print all that the .md file has.", ("-v", "--verbose"))


class PlanView(JsonView):
    """How the result is printed, or only what would be done."""

    dry_run: bool = option(False, "Print what would be done, and do nothing.")


V = TypeVar("V", bound=View)

TaskFlags = Literal["", "all", "images"]
"""Which flags ``--task`` adds: none, all, or those that prepare images."""


@dataclass(frozen=True)
class Verb(Generic[R, T, V]):
    """A verb as the command line uses it."""

    request: type[R]
    run: Callable[[R, Caller], T]
    show: Callable[[T, R, V], int | None] | None  # prints a result; returns a status other than 0
    view: type[V]
    plan: Callable[[R, V, Caller], None] | None = None
    each: Callable[[R, V], list[R]] | None = None
    """Returns the requests to run for one command line; none when there is nothing left to do."""
    task: TaskFlags = ""
    joins_dims: bool = False  # `--input-shape -1 3 224 224` is one value
    doc: str = ""
    subcommands: Mapping[str, AnyVerb] | None = None
    """Verbs that act on what this one lists: ``runs show``."""

    @property
    def text(self) -> str:
        """The help text: a summary line, a description, examples."""
        return self.doc or (sys.modules[self.run.__module__].__doc__ or "")


AnyVerb: TypeAlias = Verb[Any, Any, Any]


def python_function(
    request: Callable[P, R], run: Callable[[R, Caller], T], *, doc: str = ""
) -> Callable[P, T]:
    """Return the Python function of a verb; its arguments are the fields of the request."""

    def call(*arguments: P.args, **named: P.kwargs) -> T:
        return run(
            request_from_arguments(request, arguments, named), Caller(progress=_python_progress)
        )

    call.__module__ = run.__module__
    kind: type[VerbRequest] = request  # type: ignore[assignment]
    call.describe = partial(_describe, call, kind, run, doc)  # type: ignore[attr-defined]
    return call


def _describe(
    call: Callable[..., T], kind: type[VerbRequest], run: Callable[..., T], doc: str
) -> None:
    """Set docstring and signature; only Python programs need them, and they take a while."""
    prose, _, example = help_parts(doc or sys.modules[run.__module__].__doc__ or "")
    lines = [prose.replace("\b\n", ""), ""]
    known = signature_of(kind).parameters
    shown = []
    for field in fields_of(kind):
        about = getattr(field.about, "python_help", None) or field.about.help
        lines.append(textwrap.fill(f"{field.name}: {about}", 92, subsequent_indent="    "))
        written = ast.parse(field.written, mode="eval").body
        if isinstance(written, ast.Subscript) and isinstance(written.slice, ast.Tuple):
            is_annotated = ast.unparse(written.value) == "Annotated"
            written = written.slice.elts[0] if is_annotated else written
        shown.append(known[field.name].replace(annotation=ast.unparse(written)))
    returned = inspect.signature(run).return_annotation
    call.__doc__ = "\n".join([*lines, "", example]).strip()
    call.__signature__ = inspect.Signature(shown, return_annotation=returned)  # type: ignore[attr-defined]


def request_from_arguments(
    request: Callable[P, R], arguments: tuple[object, ...], named: Mapping[str, object]
) -> R:
    """Build a request; ``None`` leaves a field that cannot be ``None`` at its default.

    Extra positional arguments belong to the last positional field if it takes several values.
    """
    kind: type[VerbRequest] = request  # type: ignore[assignment]
    fields = {field.name: field for field in fields_of(kind)}
    known = signature_of(kind).parameters.values()
    places = [each.name for each in known if each.kind < each.KEYWORD_ONLY]
    if len(arguments) > len(places) > 0 and fields[places[-1]].item is not None:
        last = len(places) - 1
        arguments = (*arguments[:last], arguments[last:])
    never_none = {name for name, each in fields.items() if not (each.optional or each.is_required)}
    former = {name: each.name for name, each in former_names(kind).items()}
    named = {former.get(name, name): value for name, value in named.items()}
    kept = {k: value for k, value in named.items() if value is not None or k not in never_none}
    return request(*arguments, **kept)  # type: ignore[arg-type]


def output_of(request: StoreFields, given: str | Path | None, verb: str) -> Path:
    """Return the folder for the files of a result: the given one, or a new one in the store."""
    from trtbench.store.store import output_folder

    return output_folder(Caller().store_and_settings(request)[0], given, verb)


def refuse_unwritable(folder: Path) -> None:
    """Raise an error if a folder cannot be written, before minutes of work."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return
    facts = {"reason": f"{place} is {'read-only' if place.is_dir() else 'not a folder'}"}
    raise StoreError(f"{folder} cannot be written", facts=facts, fix="use another folder with -o")


def help_parts(text: str) -> tuple[str, str, str]:
    """Split a verb's docstring into its prose, its example commands and its Python examples."""
    prose, _, rest = inspect.cleandoc(text).partition("\nExamples:\n")
    commands = [line for line in rest.splitlines() if not line.strip().startswith(">>>")]
    python = [line.strip() for line in rest.splitlines() if line.strip().startswith(">>>")]
    return prose.strip(), "\n".join(commands).rstrip(), "\n".join(python)
