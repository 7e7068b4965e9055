"""The error tree: what is wrong, the facts, and what to type.

Knows nothing of the rest of the package; every other room raises these.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BROKEN = 3
EXIT_UNAVAILABLE = 4
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141


class TrtbenchError(Exception):
    """A condition the user can act on: one line, aligned facts, and a fix to type."""

    exit_status = EXIT_FAILED

    def __init__(
        self,
        message: str,
        *,
        facts: Mapping[str, object] | None = None,
        fix: str | None = None,
        log_tail: tuple[str, ...] = (),
        program_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.facts = {str(k): str(v) for k, v in (facts or {}).items()}
        self.fix = fix
        self.log_tail = log_tail
        """The last lines of the process that failed."""
        self.program_status = program_status
        """Exit status of a program that was started; below zero, the signal that ended it."""

    def __str__(self) -> str:
        lines = [self.message]
        width = max((len(name) for name in self.facts), default=0)
        lines += [f"  {name:<{width}}   {value}" for name, value in self.facts.items()]
        if self.fix:
            lines.append(f"fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.facts, self.fix)


def _rebuild(
    kind: type[TrtbenchError], message: str, facts: Mapping[str, object], fix: str | None
) -> TrtbenchError:
    return kind(message, facts=facts, fix=fix)


class UsageError(TrtbenchError):
    """The command, a flag or a configuration file asks for something that has no meaning."""

    exit_status = EXIT_USAGE


class InputError(TrtbenchError):
    """A model, data or artefact file cannot be used as it is."""


class InputTypeError(InputError):
    """An array has another type than the input it is for."""


class ParseError(InputError):
    """A file is not what it was taken for; the facts name the place and what was expected."""


class UnavailableError(TrtbenchError):
    """A runtime, device or library that the work needs is not usable here."""

    exit_status = EXIT_UNAVAILABLE


class StoreError(TrtbenchError):
    """The store cannot be read or written."""


class JobError(TrtbenchError):
    """A job's process did not finish its work; the failure is on record."""


class ProgramError(JobError):
    """A program that a job started (trtexec) did not do what it was started for."""


class BrokenRuleError(TrtbenchError):
    """A gate or a tolerance does not hold."""

    exit_status = EXIT_BROKEN


ERROR_KINDS: Mapping[str, type[TrtbenchError]] = {
    kind.__name__: kind
    for kind in (
        TrtbenchError, UsageError, InputError, ParseError, UnavailableError, StoreError, JobError,
        ProgramError, BrokenRuleError,
    )
}  # fmt: skip


def near_miss(word: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the known word that was most likely meant, if one is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=least)
    return close[0] if close else None


def meant(
    word: str, known: Iterable[str], *, write: Callable[[str], str] | None = None
) -> str | None:
    """Say what to type instead: the word that was most likely meant, else which there are.

    ``write`` puts a word into the flag it belongs to.
    """
    words = list(known)
    guess = near_miss(word, words)
    if guess is not None:
        return f"did you mean {guess}?" if write is None else write(guess)
    listed = f"one of {', '.join(words)}" if words else None
    return listed if write is None or not words else f"{write('NAME')}, where NAME is {listed}"


def refuse_unknown(
    word: str,
    known: Collection[str],
    said: str,
    *,
    listed: str = "known",
    flag: str | None = None,
    kind: type[TrtbenchError] = UsageError,
) -> None:
    """Refuse a word that is none of those there are, with these and the one that was meant."""
    if word not in known:
        write = None if flag is None else lambda each: f"{flag} {each}"
        raise kind(said, facts={listed: ", ".join(known)}, fix=meant(word, known, write=write))


def first_line(problem: BaseException) -> str:
    """Shorten what an exception says to its first line, or to its kind where it says nothing."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def refuse_unknown_options(
    who: str, options: Mapping[str, str], known: Mapping[str, str] | Iterable[str]
) -> None:
    """Refuse an ``--opt`` that a runtime or a builder does not have, with those it has."""
    words = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
    for name, value in options.items():
        if name not in words:
            raise UsageError(
                f"the {who} has no option {name!r}",
                facts={key: about for key, about in words.items() if about},
                fix=meant(
                    name,
                    words,
                    # The value of a name that means nothing here may be a secret.
                    write=lambda word: f"--opt {word}={'VALUE' if word == 'NAME' else value}",  # noqa: B023
                ),
            )


def refuse_other_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that an ``--opt`` cannot have, with those it can."""
    known = tuple(choices)
    if value not in known:
        fix = meant(value, known, write=lambda word: f"--opt {name}={word}")
        raise UsageError(f"--opt {name} is one of {', '.join(known)}, not {value!r}", fix=fix)


FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk, or a user's share of it, is full."""


def write_error(path: object, problem: OSError) -> StoreError:
    """The error for a file that cannot be written."""
    other = "give another place with --store or -o"
    if problem.errno in FULL:
        fix = f"free some space, or {other}"
        return StoreError("the disk is full", facts={"writing": path}, fix=fix)
    reason = problem.strerror or problem
    return StoreError(f"{path} cannot be written", facts={"reason": reason}, fix=other)


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Turn what keeps a file, or what goes into a folder, from being written into our error."""
    try:
        yield
    except OSError as problem:
        raise write_error(path, problem) from None


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn what keeps a file from being read, as bytes or as text, into our error."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise InputError(f"{path} cannot be read", facts={"reason": reason}) from None
