"""Settings of the project's ``trtbench.toml`` and of the user; flags win over both.

A project's file can name interpreters that are run as the user, so it is read only if the file and
its folder belong to the user, as with git, or if the user has trusted it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trtbench.core import errors, safety
from trtbench.core.errors import InputError, UsageError, suggest, write_error
from trtbench.core.spec import Value
from trtbench.core.words import Scalar
from trtbench.host.files import write_whole
from trtbench.models.identity import kept_value
from trtbench.requests.fields import RUNTIME, Option, fields_of
from trtbench.requests.measure import BenchRequest
from trtbench.store.place import is_url

if TYPE_CHECKING:
    from trtbench.core.run import Run
    from trtbench.store.directory import Cached
    from trtbench.store.store import Store

PROJECT_FILE = "trtbench.toml"
VARIABLES = {"store": "TRTBENCH_STORE", "runs": "TRTBENCH_RUNS", "machine": "TRTBENCH_MACHINE"}
_RUNS_CODE = ("python", "binary", "plugins", "factory", "host_code")
"""Settings of a runtime that name programs, libraries and functions; PROVIDER.KEY may, too."""
_NOT_VALID = "has a setting that is not valid"


class RuntimeSettings(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    python: str | None = None  # the interpreter its jobs run in
    options: dict[str, str] = {}  # options of the runtime itself, as `--opt` gives them


class ConfigFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    store: str | None = None  # a folder, `sqlite:///file` or `postgresql://user@host/database`
    runs: str | None = None
    """A folder or an fsspec URL for run directories; by default, next to the index."""
    machine: str | None = None
    """The name of this machine: runs with the same name are comparable, whatever the host name."""
    runtimes: dict[str, RuntimeSettings] = {}
    defaults: dict[str, Scalar] = {}  # defaults of flags, written as on the command line

    def flat(self) -> dict[str, Scalar]:
        """Return every setting that has a value, by its dotted name."""
        found: dict[str, Scalar] = {name: getattr(self, name) for name in VARIABLES}
        for name, runtime in self.runtimes.items():
            found[f"runtimes.{name}.python"] = runtime.python
            found |= {f"runtimes.{name}.options.{k}": v for k, v in runtime.options.items()}
        found |= {f"defaults.{key}": value for key, value in self.defaults.items()}
        return {key: value for key, value in found.items() if value is not None}


class Config(ConfigFile, frozen=True, kw_only=True):
    """The settings of all files and of the environment."""

    store: str
    origins: dict[str, str] = {}
    unseen: tuple[str, ...] = ()  # settings of a project's file that this user was not shown yet

    def python_for(self, runtime: str) -> str | None:
        return self.runtimes.get(runtime, RuntimeSettings()).python

    def options_for(self, runtime: str) -> dict[str, str]:
        return self.runtimes.get(runtime, RuntimeSettings()).options

    def for_other_machine(self) -> Config:
        """Return the settings without the interpreters of this machine."""
        runtimes = {name: each.having(python=None) for name, each in self.runtimes.items()}
        return self.having(runtimes=runtimes)

    def settings(self) -> dict[str, str]:
        """Return every setting that has a value, by its dotted name, with secrets masked."""
        return {
            key: safety.mask_values({key.rpartition(".")[2]: str(value)}).popitem()[1]
            for key, value in self.flat().items()
        }


def load_config(*, folder: Path | None = None, store: str | Path | None = None) -> Config:
    """Read the user's file, then the project's, then the environment, then the flag."""
    merged = ConfigFile()
    origins: dict[str, str] = {}
    unseen: list[str] = []
    folder = (folder or Path.cwd()).absolute()
    found = [each / PROJECT_FILE for each in (folder, *folder.parents)]
    found = [path for path in found if path.is_file()][:1]  # the nearest
    with contextlib.suppress(RuntimeError):  # no home, no settings in it
        found.insert(0, user_config_folder() / "config.toml")
    for path in filter(Path.is_file, found):
        content = _read(path)
        runtimes = dict(merged.runtimes)
        for name, each in content.runtimes.items():
            old = runtimes.get(name, RuntimeSettings())
            runtimes[name] = RuntimeSettings(
                python=each.python or old.python, options={**old.options, **each.options}
            )
        given = {name: getattr(content, name) or getattr(merged, name) for name in VARIABLES}
        defaults = {**merged.defaults, **content.defaults}
        merged = ConfigFile(**given, runtimes=runtimes, defaults=defaults)
        origins |= dict.fromkeys(content.flat(), str(path))
        if path.name == PROJECT_FILE:
            unseen += _unseen_settings(path, content)
    given = {name: os.environ.get(variable) for name, variable in VARIABLES.items()}
    if (store is not None or given["store"]) and origins.pop("runs", None):
        merged = merged.having(runs=None)  # it belongs to the store in the file
    for name, value in given.items():
        if value:
            safety.remember_secrets(value)
            merged = merged.having(**{name: value})
            origins[name] = f"environment {VARIABLES[name]}"
    if store is not None:
        merged, origins["store"] = merged.having(store=str(store)), "flag"
    if merged.machine is not None:
        safety.check_tag(merged.machine, where=origins["machine"])
    if merged.store is None:
        origins["store"] = "default"
        try:
            merged = merged.having(store=str(user_data_folder()))
        except RuntimeError:  # a container may run as a user without a home
            fix = f"--store DIR, or {VARIABLES['store']}=DIR in the environment"
            raise UsageError("there is no home folder for the store", fix=fix) from None
    return Config(**msgspec.structs.asdict(merged), origins=origins, unseen=tuple(unseen))


def user_config_folder() -> Path:
    """Return the folder of the user's settings; raises RuntimeError if there is no home."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "trtbench"


def user_data_folder() -> Path:
    """Return the default folder of runs."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "trtbench"


def _read(path: Path) -> ConfigFile:
    """Read one file; its paths are relative to its folder."""
    try:
        reason = safety.why_untrusted(path)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    if reason is not None and _name(path) not in _read_trust().files:
        message = f"the settings in {safety.clean_line(str(path))} are not trusted"
        facts = {"reason": reason, "danger": "they can run programs with your permissions"}
        fix = f"trtbench doctor --trust {shlex.quote(str(path))}, after reading it; or remove it"
        raise UsageError(message, facts=facts, fix=fix)
    raw = safety.read_settings(path)
    flags = {
        field.name: field
        for field in fields_of(BenchRequest)
        if isinstance(field.about, Option) and field.about.setting
    }
    try:
        content = msgspec.convert(raw, type=ConfigFile)
        for url in filter(None, (content.store, content.runs)):
            safety.remember_secrets(url)
        known = [(name, field.type, None) for name, field in flags.items()]
        defaults = msgspec.defstruct("Defaults", known, forbid_unknown_fields=True)
        whole = msgspec.defstruct("Whole", [("defaults", defaults)])
        msgspec.convert({"defaults": content.defaults}, type=whole)
    except msgspec.ValidationError as problem:
        reason = str(problem)
        place = reason.partition(" - at `$")[2].strip(".`")
        fix = f"correct {place or path.name}, in TOML"
        if "unknown field" in reason:
            kind = RuntimeSettings if place.startswith("runtimes") else ConfigFile
            names = flags if place == "defaults" else kind.__struct_fields__
            fix = suggest(reason.split("`")[1], names) or fix
        raise UsageError(f"{path} {_NOT_VALID}", facts={"reason": reason}, fix=fix) from None
    runtimes = RUNTIME.names.names() if RUNTIME.names else []
    for name in content.runtimes:
        if name not in runtimes and (guess := errors.near_miss(name, runtimes)):
            facts = {"reason": f"runtimes.{name} is no runtime"}
            raise UsageError(f"{path} {_NOT_VALID}", facts=facts, fix=f"did you mean {guess}?")
    for name, value in content.defaults.items():
        written = flags[name].about.kind
        try:
            if written is RUNTIME:
                errors.refuse_unknown(str(value), runtimes, f"there is no runtime called {value!r}")
            elif written is not None and written.check and not isinstance(value, bool):
                written.check(str(value))  # a number has no unit in a file, either
        except UsageError as problem:
            facts = {"reason": f"defaults.{name}: {problem.message}"}
            raise UsageError(f"{path} {_NOT_VALID}", facts=facts, fix=problem.fix) from None
    trusting = [name for name, each in content.runtimes.items() if "trust" in each.options]
    if trusting and path.name == PROJECT_FILE:  # it may have come with the models
        message = f"{path} cannot decide which models are trusted; only you can"
        facts = {"setting": f"runtimes.{trusting[0]}.options.trust"}
        fix = "--trust on the command line, once you know where a model comes from"
        raise UsageError(message, facts=facts, fix=fix)

    def absolute(text: str | None, *, program: bool = False) -> str | None:
        if text is None or is_url(text):
            return text
        found = str(safety.expand_home(text))
        return found if program and "/" not in found else str(path.parent / found)

    return content.having(
        store=absolute(content.store),
        runs=absolute(content.runs),
        runtimes={
            name: each.having(python=absolute(each.python, program=True))
            for name, each in content.runtimes.items()
        },
    )


# Settings of other users: which files are trusted, and which were shown


class Trusted(Value, frozen=True, kw_only=True):
    """The settings files that a user has trusted or was shown; one record for each user."""

    files: tuple[str, ...] = ()  # trusted although another user can change them
    shown: dict[str, str] = {}
    """For each settings file, a hash of the settings that were shown last."""


def trust_settings(path: Path) -> Path:
    """Trust a settings file, or the one in a folder, whoever owns it; returns the file."""
    file = path / PROJECT_FILE if path.is_dir() else path
    if not file.is_file():
        fix = "give a trtbench.toml, or the folder it is in"
        raise InputError(f"there are no settings at {file}", fix=fix)
    known, name = _read_trust(), _name(file)
    if name not in known.files:
        _write_trust(known.having(files=(*known.files, name)))
    return file


def distrust_settings(path: Path) -> bool:
    """Stop trusting a settings file; returns whether it was trusted."""
    known = _read_trust()
    names = {_name(path), _name(path / PROJECT_FILE)}
    kept = tuple(each for each in known.files if each not in names)
    _write_trust(known.having(files=kept))
    return kept != known.files


def trusted_settings() -> tuple[str, ...]:
    return _read_trust().files


def _unseen_settings(path: Path, content: ConfigFile) -> list[str]:
    """Return what a project's file sets for code and stores, if the user was not shown it yet."""
    important = {
        key: safety.mask(str(value))
        for key, value in content.flat().items()
        if key in ("store", "runs") or key.count(".") > 3 or key.rpartition(".")[2] in _RUNS_CODE
    }
    if not important:
        return []
    digest = hashlib.sha256(msgspec.json.encode(important, order="sorted")).hexdigest()[:16]
    known, name = _read_trust(), _name(path)
    if known.shown.get(name) == digest:
        return []
    with contextlib.suppress(UsageError, InputError, OSError, RuntimeError):
        _write_trust(known.having(shown={**known.shown, name: digest}))
    return [f"{path} sets {key} to {value}" for key, value in important.items()]


def _name(path: Path) -> str:
    return safety.clean_line(str(path.resolve()))


def _read_trust() -> Trusted:
    """Read the user's list of trusted files; one that another user can write is ignored."""
    with contextlib.suppress(OSError, RuntimeError):  # no list, or no home
        path = user_config_folder() / "trusted.json"
        if safety.why_untrusted(path) is None:
            return kept_value(path, Trusted) or Trusted()
    return Trusted()


def _write_trust(trusted: Trusted) -> None:
    try:
        folder = user_config_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(folder / "trusted.json", msgspec.json.encode(trusted))
    except RuntimeError:
        fix = "set XDG_CONFIG_HOME to a folder"
        raise UsageError("there is no home folder for the list of trusted files", fix=fix) from None
    except OSError as problem:
        raise write_error(folder / "trusted.json", problem) from None


def open_store(
    config: Config, *, tell: Callable[[str], None] | None = None, at_once: bool = True
) -> Store:
    """Open the store that the settings name."""
    from trtbench.store.store import Store

    home = None
    with contextlib.suppress(RuntimeError):  # no home; only some stores need one
        home = user_data_folder()
    return Store(
        config.store, runs=config.runs, home=home, describe=cached_from_run, notify=tell,
        at_once=at_once,
    )  # fmt: skip


def cached_from_run(run: Run) -> Cached | None:
    """Return the numbers that the index keeps of a run, from samples or another tool's output."""
    from trtbench.analysis.summary import headline_from_run
    from trtbench.report.run_facts import summary_of
    from trtbench.store.directory import Cached

    if len(run.times) and run.times.durations():
        count, median_s, items_per_s = headline_from_run(run)
        return Cached(samples=count, median_s=median_s, items_per_s=items_per_s)
    summary = summary_of(run)
    if summary.head is None:
        return None
    return Cached(samples=0, median_s=summary.head.typical, items_per_s=summary.items_per_s)
