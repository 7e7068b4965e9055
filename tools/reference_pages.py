"""Two pages of the reference that are not of a verb: the files, and the names of Python."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import trtbench
from trtbench.analysis.gate import PERCENTILES, RATES, STATISTICS
from trtbench.cli._outputs import FILES
from trtbench.domain.samples import DURATIONS
from trtbench.executors._hosts import Host
from trtbench.workflows.sweep.matrix import FLAGS, Matrix

MADE = "<!-- Made by tools/make_reference.py from the code; not to be changed by hand. -->"

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


def files_page() -> str:
    """Write what the files hold that people write, and those that programs read."""
    lines = [MADE, "", "# Files", ""]
    lines += [
        "Schemas are JSON Schema; `trtbench schema NAME` prints them too. What `--json` prints"
    ]
    lines += ["has one for each verb: `trtbench schema bench`.", ""]
    lines += ["| file | what it is | schema |", "|---|---|---|"]
    for name, (_, about) in FILES.items():
        stem = name.partition(".")[0]
        lines.append(f"| `{name}` | {about} | [{stem}.json](schemas/files/{stem}.json) |")
    lines += ["| `MODEL.gate.toml` | rules of a gate | [below](#gate-files) |"]
    lines += ["", "What settings mean stands in [settings](settings.md)."]
    lines += ["All files of a run directory are listed in [the design](../design.md)."]
    lines += [GATE, "| part | names |", "|---|---|"]
    lines += [f"| times | {_code(DURATIONS)} |", f"| rates | {_code(RATES)} |"]
    plain = [each for each in STATISTICS if each not in PERCENTILES]
    lines += [f"| statistics | {_code(plain)} |", f"| percentiles | {_code(PERCENTILES)} |"]
    lines += [
        "",
        "What is expected of layers is explained with [layers](../layers.md#expectations).",
    ]
    lines += ["", "## Sweep files", "", "TOML or YAML, as `trtbench sweep FILE` takes it;"]
    lines += ["[sweeps](../sweep.md) has an example.", ""]
    lines += [
        *_fields(Matrix),
        "",
        "Options of `bench` that may be an axis:",
        "",
        f"{_code(FLAGS)}.",
    ]
    lines += ["", "## hosts.toml", "", "Tables `[[host]]`, as `--hosts FILE` takes them.", ""]
    return "\n".join([*lines, *_fields(Host)]) + "\n"


def python_page(pages: Mapping[str, str]) -> str:
    """Write the signature and the text of everything that ``trtbench`` offers in Python.

    ``pages`` are those of the verbs, by their names in Python.
    """
    lines = [
        MADE,
        "",
        "# Python",
        "",
        "`import trtbench` loads nothing heavy. Words for types stand in",
    ]
    lines += ["[the index](README.md); [the notebook](../notebook.ipynb) shows them at work.", ""]
    lines += ["## Functions", ""]
    left = [name for name in pages if name not in trtbench.__all__]
    assert not left, f"to be added to src/trtbench/__init__.py: {', '.join(left)}"
    for name in dict.fromkeys((*pages, *trtbench.__all__)):
        value = getattr(trtbench, name)
        if inspect.isfunction(value):
            lines += [f"### trtbench.{name}", "", *_function(value, pages.get(name)), ""]
    lines += ["## Values", ""]
    for name in trtbench.__all__:
        value = getattr(trtbench, name)
        if inspect.isclass(value):
            lines += [f"### trtbench.{name}", "", *_class(value), ""]
    return "\n".join(lines).rstrip() + "\n"


def _function(function: Any, page: str | None) -> Iterator[str]:
    """Write the signature and what it does; the arguments are told on the page of the verb."""
    yield from ("```python", _signature(function), "```", "")
    known = inspect.signature(function).parameters
    for line in (inspect.getdoc(function) or "").splitlines():
        if line.startswith(">>>") or line.partition(":")[0] in known:
            break
        yield line.replace("``", "`")
    if page:
        yield f"What each argument means, with an example: [{page.removesuffix('.md')}]({page})."


def _signature(function: Any) -> str:
    """Write a signature with the types as their source has them, one argument a line if long."""
    shown = inspect.signature(function)
    parts: list[str] = []
    for each in shown.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = "*" if each.kind is each.VAR_POSITIONAL else ""
        default = "" if each.default is each.empty else f" = {each.default!r}"
        parts.append(f"{star}{each.name}: {each.annotation}{default}")
    whole = f"{function.__name__}({', '.join(parts)}) -> {shown.return_annotation}"
    if len(whole) <= 88:
        return whole
    inside = "".join(f"    {part},\n" for part in parts)
    return f"{function.__name__}(\n{inside}) -> {shown.return_annotation}"


def _class(value: type) -> Iterator[str]:
    yield (inspect.getdoc(value) or "").replace("``", "`")
    if hasattr(value, "__struct_fields__"):
        yield from ("", *_fields(value))
    members = [
        (name, member)
        for name, member in inspect.getmembers(value)
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property))
        and inspect.getdoc(member)
    ]
    if members:
        yield from ("", "| member | what it does |", "|---|---|")
    for name, member in members:
        typed = f"{name}()" if inspect.isfunction(member) else name
        about = (inspect.getdoc(member) or "").splitlines()[0].replace("``", "`")
        yield f"| `{typed}` | {about.replace('|', chr(92) + '|')} |"


def _fields(struct: type) -> Iterator[str]:
    """List the fields of a struct, with the text that stands under each in its source."""
    yield from ("| field | holds | meaning |", "|---|---|---|")
    for name in struct.__struct_fields__:  # type: ignore[attr-defined]
        kind, about = _field(struct, name)
        yield f"| `{name}` | `{kind}` | {about} |"


def _field(struct: type, name: str) -> tuple[str, str]:
    for owner in struct.__mro__:
        if name in inspect.get_annotations(owner):
            found = re.search(
                rf'^    {name}: (?P<kind>[^\n=]+?)(?: = [^\n]*)?\n(?:    """(?P<about>.*?)""")?',
                _source(owner),
                re.MULTILINE | re.DOTALL,
            )
            assert found is not None, f"{owner.__name__}.{name}"
            about = re.sub(r"\s+", " ", found["about"] or "").replace("``", "`")
            return found["kind"].replace("|", "\\|"), about.replace("|", "\\|")
    raise KeyError(name)


_source = functools.cache(inspect.getsource)


def _code(names: Any) -> str:
    return " ".join(f"`{each}`" for each in names)
