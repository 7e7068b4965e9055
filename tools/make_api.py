"""Write ``src/trtbench/api.py``: the verbs with the fields of their requests as arguments.

``python tools/make_api.py`` after a change of a request or of the verbs; a test says when.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from request_fields import default_text, functions, is_filled, requests_by_verb, written_type
from trtbench import verbs, verbs_of_runs
from trtbench.domain import words
from trtbench.workflows.request import groups, judging, kinds, sweeping
from trtbench.workflows.request.fields import (
    Argument,
    Option,
    RequestField,
    VerbRequest,
    fields_of,
    request_from_arguments,
)

TARGET = Path(__file__).resolve().parents[1] / "src" / "trtbench" / "api.py"

HEAD = '''"""The Python API: the verbs of the command line, with the same words as typed arguments.

Made by tools/make_api.py from the verbs and their requests; not to be changed by hand.
"""

from __future__ import annotations

{imports}


'''

TAIL = '''
def load(name: File, *, store: File | None = None) -> Run | FailedRun:
    """Read a stored run by id, the beginning of it, ``last``, ``tag:NAME`` or folder."""
    from trtbench.workflows.request.config import load_config, open_store

    return open_store(load_config(store=store)).load(str(name))


def summary(run: Run) -> Summary:
    """Compute every statistic of a run."""
    from trtbench.analysis.summary import summary_from_run

    return summary_from_run(run)
'''

ONE = {("compare", "candidates"): "candidate"}
"""Series of which Python takes one, because one result comes back."""


def api_text() -> str:
    """Write the module."""
    body = "\n\n".join(_function(verb, request) for verb, request in requests_by_verb().items())
    text = HEAD.format(imports=_imports(body + TAIL)) + body + "\n" + TAIL
    return _formatted(text)


def _function(verb: str, request: type[VerbRequest]) -> str:
    shown = [field for field in fields_of(request) if _is_offered(field)]
    places = [f for f in shown if isinstance(f.about, Argument) and not f.about.rest]
    named = [f for f in shown if f not in places]
    single = [f for f in places if f.item is None or (verb, f.name) in ONE]
    series = [f for f in places if f not in single]
    parameters = [_parameter(verb, request, field) for field in single]
    parameters += [f"*{f.name}: {_item(written_type(request, f.name))}" for f in series]
    if named and not series:
        parameters.append("*")
    required = [f for f in named if f.is_required]
    parameters += [_parameter(verb, request, f) for f in (*required, *named) if f in named]
    parameters = list(dict.fromkeys(parameters))
    lines = [f"def {verb}("]
    lines += [f"    {each}," for each in parameters]
    lines += [f") -> {_returned(verb)}:"]
    lines += [textwrap.indent(_docstring(verb, shown), "    ")]
    lines += [
        f"    {f.name} = () if {one} is None else ({one},)"
        for f in shown
        if (one := ONE.get((verb, f.name)))
    ]
    home = functions()[verb].__module__.removeprefix("trtbench.")
    made = (
        f"request_from_arguments({request.__name__}, locals())"
        if shown
        else f"{request.__name__}()"
    )
    lines += [f"    return {home}.{verb}({made})"]
    return "\n".join(lines) + "\n"


def _is_offered(field: RequestField) -> bool:
    return not isinstance(field.about, Option) or field.about.python


def _parameter(verb: str, request: type[VerbRequest], field: RequestField) -> str:
    written = written_type(request, field.name)
    name = field.name
    if (verb, name) in ONE:
        return f"{ONE[verb, name]}: {_item(written)} | None = None"
    if is_filled(field.default) and "None" not in written:
        written = f"{written} | None"
    default = "" if field.is_required else f" = {default_text(field.default)}"
    return f"{name}: {written}{default}"


def _item(written: str) -> str:
    """The type of one of a series: ``Sequence[File]`` holds ``File``."""
    node = ast.parse(written, mode="eval").body
    assert isinstance(node, ast.Subscript)
    return ast.unparse(node.slice)


def _returned(verb: str) -> str:
    source = ast.parse(inspect.getsource(functions()[verb]))
    definition = source.body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert definition.returns is not None
    return ast.unparse(definition.returns)


def _docstring(verb: str, shown: list[RequestField]) -> str:
    text = inspect.getdoc(functions()[verb]) or ""
    about, _, example = text.partition("\n\n>>>")
    lines = [about]
    if shown:
        lines += ["", *(_explained(verb, field) for field in shown)]
    if example:
        lines += ["", f">>>{example}"]
    quoted = "\n".join(lines).replace("\\", "\\\\")
    return f'"""{quoted}\n"""'


def _explained(verb: str, field: RequestField) -> str:
    name = ONE.get((verb, field.name), field.name)
    said = field.about.python_help if isinstance(field.about, Option) else None
    return textwrap.fill(f"{name}: {said or field.about.help}", 92, subsequent_indent="    ")


def _imports(body: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    homes: dict[str, set[str]] = {}
    typed: dict[str, set[str]] = {}
    asked = {each.__name__: each.__module__ for each in requests_by_verb().values()}
    for module in (kinds, words, groups, judging, sweeping):
        for name in {each for each in used if not each.endswith("Request")} & set(vars(module)):
            if getattr(vars(module)[name], "__module__", module.__name__) == module.__name__ or (
                name in _assigned(module)
            ):
                typed.setdefault(module.__name__, set()).add(name)
    typed.setdefault("typing", set()).update(used & {"Literal"})
    typed.setdefault("collections.abc", set()).update(used & {"Collection", "Mapping", "Sequence"})
    typed.setdefault("pathlib", set()).update(used & {"Path"})
    for name in used:
        if name.endswith("Request"):
            homes.setdefault(asked[name], set()).add(name)
    returned = {**_type_checking(verbs), **_type_checking(verbs_of_runs)}
    for name in used & set(returned):
        typed.setdefault(returned[name], set()).add(name)
    typed["trtbench.analysis.summary"] = {"Summary"}
    typed.setdefault("trtbench.domain.result", set()).update({"FailedRun", "Run"})
    homes["trtbench.workflows.request.fields"] = {request_from_arguments.__name__}
    lines = ["from typing import TYPE_CHECKING", "", "from trtbench import verbs, verbs_of_runs"]
    lines += [f"from {home} import {', '.join(sorted(homes[home]))}" for home in sorted(homes)]
    lines += ["", "if TYPE_CHECKING:"]
    lines += [
        f"    from {home} import {', '.join(sorted(typed[home]))}"
        for home in sorted(typed)
        if typed[home]
    ]
    return "\n".join(lines)


def _assigned(module: object) -> set[str]:
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _type_checking(module: object) -> dict[str, str]:
    """The names a module imports for its types alone, and where from."""
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    return {
        alias.name: node.module or ""
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    for words_ in (["check", "--select", "I,F401", "--fix", "-q"], ["format", "-q"]):
        done = subprocess.run(
            [*ruff, *words_, "--stdin-filename", str(TARGET), "-"],
            input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip
        text = done.stdout or text
    return text


if __name__ == "__main__":
    TARGET.write_text(api_text(), "utf-8")
    print(f"wrote {TARGET}")
