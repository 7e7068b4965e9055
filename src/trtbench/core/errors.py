"""The exceptions: each says what is wrong, the facts, and what to type."""

import difflib
import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BROKEN = 3
EXIT_UNAVAILABLE = 4
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141
LONGEST = 2000  # characters of a message or a fact, which may quote a file


def _shortened(text: str) -> str:  # what is wrong stands at the end
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"


class TrtbenchError(Exception):
    """An error the user can act on: one line, aligned facts, and a fix to type."""

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
        self.message = _shortened(message)
        super().__init__(self.message)
        self.facts = {_shortened(str(k)): _shortened(str(v)) for k, v in (facts or {}).items()}
        self.fix = fix and _shortened(fix)
        self.log_tail = log_tail  # of the process that failed
        self.program_status = program_status  # below zero: the signal that ended it

    def __str__(self) -> str:
        width = max((len(name) for name in self.facts), default=0)
        facts = [f"  {name:<{width}}   {value}" for name, value in self.facts.items()]
        return "\n".join([self.message, *facts, *([f"fix: {self.fix}"] if self.fix else [])])

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), facts=self.facts, fix=self.fix), (self.message,)


class UsageError(TrtbenchError):
    """The command, a flag or a configuration file is not valid."""

    exit_status = EXIT_USAGE


class InputError(TrtbenchError):
    """A model, data or artefact file cannot be used."""


class InputTypeError(InputError):
    """An array has another type than the input it is for."""


class ParseError(InputError):
    """A file does not have the expected content; the facts say where, and what was expected."""


class UnavailableError(TrtbenchError):
    """A runtime, device or library that is needed is not usable here."""

    exit_status = EXIT_UNAVAILABLE


class StoreError(TrtbenchError):
    """The store cannot be read or written."""


class JobError(TrtbenchError):
    """The process of a job did not finish its work; the failure is recorded."""


class ProgramError(JobError):
    """A program that a job started (trtexec) failed."""


class BrokenRuleError(TrtbenchError):
    """A rule of a gate, or an expectation, is not met."""

    exit_status = EXIT_BROKEN


class IncomparableError(TrtbenchError):
    """Two sides cannot be compared, which is known before anything is measured."""

    exit_status = EXIT_BROKEN


ERROR_KINDS: dict[str, type[TrtbenchError]] = {"TrtbenchError": TrtbenchError}
for _parent in (TrtbenchError, InputError, JobError):
    ERROR_KINDS |= {kind.__name__: kind for kind in _parent.__subclasses__()}


def near_miss(word: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the known word that is spelled most like ``word``, if one is similar enough."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=least)
    return close[0] if close else None


def suggest(
    word: str, known: Iterable[str], *, write: Callable[[str], str] | None = None
) -> str | None:
    """Return a fix: the closest known word, else a list of all; ``write`` adds the flag."""
    words = list(known)
    guess = near_miss(word, words)
    if guess is not None:
        return f"did you mean {guess}?" if write is None else write(guess)
    listed = f"one of {', '.join(words)}" if words else None
    return f"{write('NAME')}, where NAME is {listed}" if listed and write else listed


def refuse_unknown(
    word: str,
    known: Collection[str],
    message: str,
    *,
    listed: str = "known",
    flag: str | None = None,
    kind: type[TrtbenchError] = UsageError,
) -> None:
    """Raise an error for a word that is not known; it suggests one, or lists all."""
    if word not in known:
        write = None if flag is None else lambda each: f"{flag} {each}"
        facts = {listed: ", ".join(known)} if near_miss(word, known) else {}
        raise kind(message, facts=facts, fix=suggest(word, known, write=write))


def first_line(problem: BaseException) -> str:
    """Return the first line of an exception's message, or its type if there is no message."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def refuse_unknown_options(
    who: str, options: Mapping[str, str], known: Mapping[str, str] | Iterable[str]
) -> None:
    """Raise an error for an ``--opt`` that a runtime or builder does not have; lists all.

    ``PROVIDER.KEY`` stands for every name with a dot.
    """
    words = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
    open_ended = any("." in word for word in words)
    for name, value in options.items():
        if name not in words and not (open_ended and "." in name):
            facts = {key: about for key, about in words.items() if about}
            # The value of an unknown option may be a secret.
            given = value if near_miss(name, words) else "VALUE"
            fix = suggest(name, words, write=lambda word: f"--opt {word}={given}")  # noqa: B023
            raise UsageError(f"the {who} has no option {name!r}", facts=facts, fix=fix)


def refuse_other_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise an error for a value that an ``--opt`` cannot have; lists the valid ones."""
    known = tuple(choices)
    if value not in known:
        fix = suggest(value, known, write=lambda word: f"--opt {name}={word}")
        raise UsageError(f"--opt {name} must be one of {', '.join(known)}, not {value!r}", fix=fix)


FULL = (errno.ENOSPC, errno.EDQUOT)  # the disk, or the user's quota, is full


def write_error(path: object, problem: OSError) -> StoreError:
    fix = "use another folder with -o (for the store: --store DIR)"
    if problem.errno == errno.ENAMETOOLONG:
        fix = "give it a shorter name"
    if problem.errno in FULL:
        fix = f"free some space, or {fix}"
        return StoreError("the disk is full", facts={"writing": path}, fix=fix)
    facts = {"reason": problem.strerror or problem}
    return StoreError(f"{path} cannot be written", facts=facts, fix=fix)


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Raise a StoreError if the block fails to write a file or folder."""
    try:
        yield
    except OSError as problem:
        raise write_error(path, problem) from None


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Raise an InputError if the block fails to read a file, as bytes or as text."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise InputError(f"{path} cannot be read", facts={"reason": reason}) from None
