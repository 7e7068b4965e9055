"""Write ``docs/reference/``: every flag, argument and setting, from the requests.

``python tools/make_reference.py`` (or ``make reference``) after a change; a test says when.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import click

from reference_pages import files_page, python_page
from request_fields import functions, group_of, requests_by_verb, written_type
from trtbench.cli import trtbench as command_line
from trtbench.errors import (
    EXIT_BROKEN,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNAVAILABLE,
    EXIT_UNREAD,
    EXIT_USAGE,
)
from trtbench.workflows.request import kinds
from trtbench.workflows.request.config import ConfigFile, RuntimeSettings
from trtbench.workflows.request.fields import Argument, Option, RequestField, VerbRequest, fields_of
from trtbench.workflows.request.measuring import BenchRequest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"

TYPED = {"evaluate": "eval", "import_runs": "import", "export_runs": "export-runs"}
"""Verbs that have another name on the command line."""

MADE = "<!-- Made by tools/make_reference.py from the requests; not to be changed by hand. -->"

STATUSES = {
    0: "done",
    EXIT_FAILED: "what was to be done failed: a file, a job, the store",
    EXIT_USAGE: "the command, a flag or a setting has no meaning",
    EXIT_BROKEN: "a rule of a gate, a check, an expectation or a condition does not hold",
    EXIT_UNAVAILABLE: "a runtime, a device or a library is not usable here",
    EXIT_INTERRUPTED: "interrupted; nothing half-done was kept",
    EXIT_UNREAD: "the reader of the output left first, as `| head` does",
}


def pages() -> dict[str, str]:
    """Write every page of the reference, by the name of its file."""
    found = requests_by_verb()
    written = {f"{TYPED.get(verb, verb)}.md": _page(verb, each) for verb, each in found.items()}
    written |= {f"{name}.md": _plain_page(name) for name in _others(found)}
    written["settings.md"] = _settings()
    written["files.md"] = files_page()
    written["python.md"] = python_page({verb: f"{TYPED.get(verb, verb)}.md" for verb in found})
    written["README.md"] = _index(found)
    return written


def _index(found: dict[str, type[VerbRequest]]) -> str:
    lines = [MADE, "", "# Reference", ""]
    lines += ["Every verb with its flags and Python arguments:", ""]
    lines += ["| on the command line | in Python | what it does |", "|---|---|---|"]
    for verb in found:
        typed = TYPED.get(verb, verb)
        about = (inspect.getdoc(functions()[verb]) or "").splitlines()[0]
        lines.append(f"| [`trtbench {typed}`]({typed}.md) | `trtbench.{verb}` | {about} |")
    for name in _others(found):
        lines.append(f"| [`trtbench {name}`]({name}.md) | | {_command(name).short_help} |")
    lines += ["", "Words for types of Python arguments:", "", "| type | holds |", "|---|---|"]
    lines += [f"| `{name}` | {about} |" for name, about in _aliases()]
    lines += ["", "Beside the verbs:", "", "| | |", "|---|---|"]
    lines += ["| [settings](settings.md) | `trtbench.toml` |"]
    lines += ["| [files](files.md) | gate and sweep files, `run.json` and others, with schemas |"]
    lines += ["| [Python](python.md) | functions and values, with their types |"]
    lines += ["| [findings](../findings.md) | every rule that looks at a result |", ""]
    lines += ["## Exit status", "", "| status | meaning |", "|---|---|"]
    lines += [f"| {status} | {meaning} |" for status, meaning in STATUSES.items()]
    return "\n".join(lines) + "\n"


def _others(found: dict[str, type[VerbRequest]]) -> list[str]:
    """The verbs that only the command line has."""
    known = {TYPED.get(verb, verb) for verb in found}
    names = command_line.list_commands(click.Context(command_line))
    return [name for name in names if name not in known]


def _command(name: str) -> click.Command:
    command = command_line.get_command(click.Context(command_line), name)
    assert command is not None
    return command


def _plain_page(name: str) -> str:
    command = _command(name)
    lines = [MADE, "", f"# trtbench {name}", "", f"{command.short_help}", ""]
    lines += [*_examples(command.help or ""), *_screen_flags(command, VerbRequest, title="Flags")]
    return "\n".join(lines).rstrip() + "\n"


def _aliases() -> Iterator[tuple[str, str]]:
    """Names of types with the text that stands under each in the source."""
    lines = inspect.getsource(kinds).splitlines()
    for line, below in itertools.pairwise(lines):
        name, equals, _ = line.partition(" = ")
        if equals and name.isidentifier() and below.startswith('"""'):
            yield name, below.strip('"').replace("``", "`").replace("|", "\\|")


def _page(verb: str, request: type[VerbRequest]) -> str:
    typed = TYPED.get(verb, verb)
    command = _command(typed)
    lines = [MADE, "", f"# trtbench {typed}", "", f"{command.short_help}", ""]
    lines += [*_examples(command.help or ""), "In Python:", ""]
    lines += ["```python", *_python_example(verb), "```", ""]
    lines += [*_tables(request), *_screen_flags(command, request)]
    return "\n".join(lines).rstrip() + "\n"


def _examples(help_text: str) -> Iterator[str]:
    _, _, examples = inspect.cleandoc(help_text).partition("Examples:\n")
    yield "```sh"
    yield from (line[2:] if line.startswith("  ") else line for line in examples.splitlines())
    yield "```"
    yield ""


def _python_example(verb: str) -> Iterator[str]:
    text = inspect.getdoc(functions()[verb]) or ""
    for line in text.splitlines():
        if line.startswith(">>> "):
            yield line.removeprefix(">>> ")


def _tables(request: type[VerbRequest]) -> Iterator[str]:
    shown = fields_of(request)
    for group in dict.fromkeys(group_of(request, field.name) for field in shown):
        own = [field for field in shown if group_of(request, field.name) is group]
        title = (
            "This verb" if group is request else (group.__doc__ or "").rstrip(".").split("\n")[0]
        )
        yield from (
            f"## {title}",
            "",
            "| flag | in Python | default | meaning |",
            "|---|---|---|---|",
        )
        yield from (_row(request, field) for field in own)
        yield ""


def _row(request: type[VerbRequest], field: RequestField) -> str:
    about = field.about
    meaning = about.help
    if isinstance(about, Option):
        marks = {
            "once per side": about.per_side,
            "axis of sweeps": about.axis,
            "`[defaults]`": about.setting,
        }
        meaning += "".join(f" *{mark}*" for mark, is_so in marks.items() if is_so)
        if about.least is not None or about.most is not None:
            ends = (about.least, about.most)
            words = [
                f"{w} {e:g}" for w, e in zip(("from", "to"), ends, strict=True) if e is not None
            ]
            meaning += f" *{' '.join(words)}*"
    python = f"`{field.name}: {written_type(request, field.name)}`"
    offered = not isinstance(about, Option) or about.python
    default = "required" if field.is_required else _default(field.default)
    cells = (_flag(field), python if offered else "", default, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _flag(field: RequestField) -> str:
    about = field.about
    if isinstance(about, Argument):
        return f"`{about.metavar or field.name.upper()}`" if not about.rest else "`-- ...`"
    if field.name == "settings":
        return "the task's own"
    metavar = about.metavar or (about.kind.metavar if about.kind else "")
    if field.choices and not about.metavar:
        metavar = "\\|".join(field.choices).replace("\\", "")
    typed = " ".join(filter(None, (", ".join(field.flags), metavar)))
    return f"`{typed}`"


def _default(default: object) -> str:
    empty = default in (None, (), {}, False)
    return "" if empty else ("on" if default is True else f"`{default}`")


def _screen_flags(
    command: click.Command, request: type[VerbRequest], *, title: str = "On screens"
) -> Iterator[str]:
    known = {field.name for field in fields_of(request)} if request is not VerbRequest else set()
    rest = [each for each in command.params if each.name not in known]
    options = [each for each in rest if isinstance(each, click.Option) and each.help]
    if not options:
        return
    yield from (f"## {title}", "", "| flag | meaning |", "|---|---|")
    for each in options:
        typed = ", ".join(each.opts)
        yield f"| `{typed}` | {each.help} |".replace("\\|", "|")


def _settings() -> str:
    lines = [MADE, "", "# trtbench.toml", ""]
    lines += ["The nearest `trtbench.toml` at or above the working folder, and before it the file",
              "`trtbench/config.toml` in the user's configuration folder. Flags win over both;",
              "`trtbench doctor` shows where each value came from.", ""]  # fmt: skip
    lines += ["| key | what it sets |", "|---|---|"]
    for name, about in _described(ConfigFile):
        if name not in ("runtimes", "defaults"):
            lines.append(f"| `{name}` | {about} |")
    for name, about in _described(RuntimeSettings):
        lines.append(f"| `[runtimes.NAME]` `{name}` | {about} |")
    lines += ["", "## [defaults]", "", "Written as on the command line:", ""]
    lines += ["| key | holds | default of |", "|---|---|---|"]
    for field in fields_of(BenchRequest):
        if isinstance(field.about, Option) and field.about.setting:
            holds = written_type(BenchRequest, field.name).removesuffix(" | None")
            lines.append(f"| `{field.name}` | `{holds}` | `{field.flag}`: {field.about.help} |")
    return "\n".join(lines) + "\n"


def _described(struct: type) -> Iterator[tuple[str, str]]:
    """Fields of a struct with the text that stands under each in its source."""
    lines = inspect.getsource(struct).splitlines()
    names = struct.__struct_fields__  # type: ignore[attr-defined]
    for name in names:
        place = next(k for k, line in enumerate(lines) if line.startswith(f"    {name}:"))
        below = lines[place + 1].strip() if place + 1 < len(lines) else ""
        yield name, below.strip('"').replace("``", "`") if below.startswith('"""') else ""


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
    print(f"wrote {len(pages())} pages to {FOLDER}")
