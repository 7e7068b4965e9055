"""Whether what a fix says can be typed: its verbs and flags exist, for the command it is for."""

import re
from collections.abc import Iterator, Sequence

import click

from trtbench.cli import trtbench as group
from trtbench.tasks import TASKS

FOREIGN = {
    # flags of other programs that our advice names: pip, apt, docker, trtexec, cpupower, git ...
    "--upgrade", "--no-deps", "--gpus", "--ipc", "--version", "--help", "--user", "--index-url",
    "--rm", "--privileged",
}  # fmt: skip
_FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*(?![A-Za-z])|(?<![\w-])-[a-z]\b")
_COMMAND = re.compile(r"(?<![\w/.'-])trtbench(?: (?!-m\b)[^\s;,()]+)*")


def find_verb(words: Sequence[str]) -> click.Command | None:
    """Find the command that the words name, down to a sub-command."""
    found: click.Command = group
    context = click.Context(group)
    for word in words:
        if not isinstance(found, click.Group):
            break
        step = found.get_command(context, word)
        if step is None:
            return found if found is not group else None
        found = step
    return found


def flags_of(command: click.Command) -> set[str]:
    """Give the flags of a command, of its sub-commands, and of tasks where it has them."""
    found = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    if isinstance(command, click.Group) and command is not group:
        found |= {flag for step in command.commands.values() for flag in flags_of(step)}
    if "--task" in found:
        found |= {f"--{flag.name}" for _, task in TASKS.loaded() for flag in task.FLAGS}
    return found | {"--help"}


def wrong_advice(fix: str, typed: Sequence[str] = ()) -> Iterator[str]:
    """Say what of a fix nobody could type; ``typed`` is the command that it is for."""
    own = find_verb([word for word in typed if word[:1] != "-"]) or group
    for command in _COMMAND.findall(fix):
        words = command.split()[1:]
        verb = find_verb([word for word in words if re.fullmatch("[a-z][a-z-]*", word)][:2])
        if verb is None:
            yield f"there is no {command!r}"
        else:
            own_words = command.partition(" -- ")[0]  # what follows is another program's
            yield from sorted(set(_FLAG.findall(own_words)) - flags_of(verb) - FOREIGN)
    if own is not group:
        rest = _COMMAND.sub(" ", fix)
        if not re.search(r"\b(pip|trtexec|apt|git|rm|cp|set|python) ", rest):
            named = {word.partition("=")[0] for word in typed}  # "leave it out"
            yield from sorted(set(_FLAG.findall(rest)) - flags_of(own) - named - FOREIGN)
