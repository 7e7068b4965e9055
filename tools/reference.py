"""Write the pages of the reference: every verb, argument, setting and file, from the code.

Sphinx calls ``write_pages`` while it builds the documentation; nothing of it is kept.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

import trtbench
from draw_packages import packages_page
from trtbench.analysis.gate import PERCENTILES, RATES, STATISTICS
from trtbench.cli import trtbench as command_line
from trtbench.cli import verb_named
from trtbench.core.samples import DURATIONS
from trtbench.executors.ssh import Host
from trtbench.requests.fields import Argument, Option, RequestField, VerbRequest, fields_of
from trtbench.requests.measure import BenchRequest
from trtbench.requests.settings import ConfigFile, RuntimeSettings
from trtbench.sweep.matrix import FLAGS, Matrix
from trtbench.verbs._verb import AnyVerb, help_parts

FILES = {
    "run.json": "the record of a run: its request, its machine, its findings",
    "scores.json": "the accuracy of a run's model",
    "load.json": "the search for a rate that ended with a run",
    "sweep.toml": "the matrix of a sweep, under any name; YAML too",
    "hosts.toml": "machines that are reached by ssh",
    "trtbench.toml": "settings of a project, or of a user",
}
GATE = """
## Gate files

`MODEL.gate.toml` beside a model, or any file that `gate --rules` names. A key is a metric, a
statistic or both with a dot between; a value is a limit, or a range of two:

```toml
p99 = "<5ms"
median = ["4ms", "6ms"]
throughput = ">=100/s"
max_slowdown = "3%"                       # against --against or --baseline
expect = ["count(MatMul)==0", "share(precision=int8)>=80%"]

[gpu]
p99 = "<4ms"
```
"""


def write_pages(folder: Path) -> list[Path]:
    """Write every page; gives their paths."""
    pages = {f"{name}.md": verb_page(name, verb) for name, verb in verbs()}
    pages |= {"settings.md": settings_page(), "files.md": files_page(), "python.md": python_page()}
    pages["packages.md"] = packages_page(folder)
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in pages]


def verbs() -> Iterator[tuple[str, AnyVerb]]:
    """List the verbs with those within them, without old spellings."""
    for name in command_line.list_commands(click.Context(command_line)):
        verb = verb_named(name)
        if verb is not None:
            yield name, verb


def verb_page(name: str, verb: AnyVerb, *, level: int = 1) -> str:
    """Describe a verb: what it does, examples, what it takes, and the verbs within."""
    prose, commands, python = help_parts(verb.text)
    lines = [f"{'#' * level} trtbench {name}", "", prose.replace("\b\n", ""), ""]
    if commands:
        lines += ["```sh", inspect.cleandoc(f"\n{commands}"), "```", ""]
    if python:
        lines += ["```python", re.sub(r"^>>> ", "", python, flags=re.MULTILINE), "```", ""]
    for request in (verb.request, verb.view):
        lines += tables(request, level + 1)
    for word, each in (verb.subcommands or {}).items():
        lines += [verb_page(f"{name} {word}", each, level=level + 1)]
    return "\n".join(lines).rstrip() + "\n"


def tables(request: type[VerbRequest], level: int) -> Iterator[str]:
    """Describe the fields of a request, group by group."""
    groups: dict[type, list[RequestField]] = {}
    for field in fields_of(request):
        owner = owner_of(request, field.name)
        groups.setdefault(owner, []).append(field)
    for owner, fields in groups.items():
        title = (owner.__doc__ or "").splitlines()[0].rstrip(".")
        yield from (f"{'#' * level} {title}", "")
        yield from ("| flag | in Python | default | meaning |", "|---|---|---|---|")
        for field in fields:
            default = "" if field.default in (None, (), {}, False) else f"`{field.default}`"
            cells = (
                flag_text(field),
                f"`{field.name}`",
                "required" if field.is_required else default,
                meaning(field.about),
            )
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        yield ""


def owner_of(kind: type, name: str) -> type:
    return next(each for each in kind.__mro__ if name in inspect.get_annotations(each))


def flag_text(field: RequestField) -> str:
    about = field.about
    if isinstance(about, Argument):
        return "`-- ...`" if about.rest else f"`{about.metavar or field.name.upper()}`"
    if field.name == "settings":
        return "the task's own"
    metavar = about.metavar or (about.kind.metavar if about.kind else "|".join(field.choices))
    return f"`{' '.join(filter(None, (', '.join(field.flags), metavar)))}`"


def meaning(about: Option | Argument) -> str:
    if isinstance(about, Argument):
        return about.help
    marks = {"once per side": about.per_side, "axis of sweeps": about.axis}
    marks |= {"`[defaults]`": about.setting, f"from {about.least}": about.least is not None}
    marks |= {f"to {about.most}": about.most is not None}
    return about.help + "".join(f" *{mark}*" for mark, is_so in marks.items() if is_so)


def settings_page() -> str:
    """Describe ``trtbench.toml``."""
    lines = ["# trtbench.toml", ""]
    lines += ["The nearest `trtbench.toml` at or above the working folder, and before it the file",
              "`trtbench/config.toml` in the user's configuration folder. Flags win over both;",
              "`trtbench doctor` shows where each value came from.", ""]  # fmt: skip
    lines += [*fields_table(ConfigFile), "", "## [runtimes.NAME]", ""]
    lines += [*fields_table(RuntimeSettings), "", "## [defaults]", ""]
    lines += ["Written as on the command line:", "", "| key | default of |", "|---|---|"]
    for field in fields_of(BenchRequest):
        if isinstance(field.about, Option) and field.about.setting:
            lines.append(f"| `{field.name}` | `{field.flag}`: {field.about.help} |")
    return "\n".join(lines) + "\n"


def files_page() -> str:
    """Describe the files that people write, and those that programs read."""
    lines = ["# Files", "", "| file | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {about} |" for name, about in FILES.items()]
    lines += ["| `MODEL.gate.toml` | rules of a gate |", "", GATE, "| part | names |", "|---|---|"]
    plain = [each for each in STATISTICS if each not in PERCENTILES]
    named = {"times": DURATIONS, "rates": RATES, "statistics": plain, "percentiles": PERCENTILES}
    lines += [f"| {part} | {code(names)} |" for part, names in named.items()]
    lines += ["", "[Layers](../layers.md#expectations) explains what is expected of layers.", ""]
    lines += ["## Sweep files", "", "TOML or YAML; [sweeps](../sweep.md) has an example.", ""]
    lines += [*fields_table(Matrix), "", "Options of `bench` that may be an axis:", ""]
    lines += [f"{code(FLAGS)}.", "", "## hosts.toml", "", "Tables `[[host]]`.", ""]
    return "\n".join([*lines, *fields_table(Host)]) + "\n"


def python_page() -> str:
    """Describe everything that ``trtbench`` offers in Python."""
    lines = [
        "# Python",
        "",
        "`import trtbench` loads nothing heavy; the pages of verbs say what",
    ]
    lines += ["each argument means. [The notebook](../notebook.ipynb) shows them at work.", ""]
    for name in trtbench.__all__:
        value = getattr(trtbench, name)
        lines += [f"## trtbench.{name}", ""]
        about = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("``", "`")
        if inspect.isclass(value):
            has_fields = hasattr(value, "__struct_fields__")
            lines += [about, "", *(fields_table(value) if has_fields else ()), ""]
        else:
            signature = str(inspect.signature(value)).replace("'", "")
            lines += ["```python", f"{name}{signature}", "```", "", about, ""]
    return "\n".join(lines).rstrip() + "\n"


def fields_table(struct: type) -> Iterator[str]:
    """List the fields of a struct, with the text that stands under each in its source."""
    yield from ("| field | holds | meaning |", "|---|---|---|")
    for name in struct.__struct_fields__:  # type: ignore[attr-defined]
        owner = owner_of(struct, name)
        found = re.search(
            rf'^    {name}: (?P<kind>[^\n=]+?)(?: = [^\n]*)?\n(?:    """(?P<about>.*?)""")?',
            source_of(owner),
            re.MULTILINE | re.DOTALL,
        )
        kind, about = (found["kind"], found["about"] or "") if found else ("", "")
        cells = f"`{kind}`", re.sub(r"\s+", " ", about).replace("``", "`")
        yield f"| `{name}` | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


source_of = functools.cache(inspect.getsource)


def code(names: Iterable[Any]) -> str:
    return " ".join(f"`{each}`" for each in names)
