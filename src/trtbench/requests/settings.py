"""Settings of the project's ``trtbench.toml`` and of the user; flags win over both.

A project's file can name interpreters that are then run as the user, so it is taken only from
files and folders that are the user's own, as git does, or that were trusted.
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

from trtbench.core import safety
from trtbench.core.errors import InputError, UsageError, meant, write_error
from trtbench.core.spec import Value
from trtbench.core.words import Scalar
from trtbench.host.files import write_whole
from trtbench.requests.fields import Option, fields_of
from trtbench.requests.measure import BenchRequest
from trtbench.store.place import is_url

if TYPE_CHECKING:
    from trtbench.core.run import Run
    from trtbench.store.directory import Cached
    from trtbench.store.store import Store

PROJECT_FILE = "trtbench.toml"
VARIABLES = {"store": "TRTBENCH_STORE", "runs": "TRTBENCH_RUNS", "machine": "TRTBENCH_MACHINE"}
_STEERING = ("python", "binary", "plugins", "factory")
"""Settings of a runtime that name programs, libraries and functions."""


class RuntimeSettings(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one runtime."""

    python: str | None = None
    """The interpreter its jobs run in."""
    options: dict[str, str] = {}
    """Options of the runtime itself, as ``--opt`` gives them."""


class ConfigFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one configuration file."""

    store: str | None = None
    """A folder, ``sqlite:///file`` or ``postgresql://user@host/database``."""
    runs: str | None = None
    """A folder or an fsspec URL for run directories; beside the index by default."""
    machine: str | None = None
    """The name of this machine: runs of one name are compared, whatever the host's name."""
    runtimes: dict[str, RuntimeSettings] = {}
    defaults: dict[str, Scalar] = {}
    """Of flags, written as on the command line."""

    def flat(self) -> dict[str, Scalar]:
        """Every setting that has a value, by its dotted name."""
        found: dict[str, Scalar] = {name: getattr(self, name) for name in VARIABLES}
        for name, runtime in self.runtimes.items():
            found[f"runtimes.{name}.python"] = runtime.python
            found |= {f"runtimes.{name}.options.{k}": v for k, v in runtime.options.items()}
        found |= {f"defaults.{key}": value for key, value in self.defaults.items()}
        return {key: value for key, value in found.items() if value is not None}


class Config(ConfigFile, frozen=True, kw_only=True):
    """All files and the environment taken together."""

    store: str
    origins: dict[str, str] = {}
    news: tuple[str, ...] = ()  # what a project's file sets and this user has not been shown before

    def python_for(self, runtime: str) -> str | None:
        settings = self.runtimes.get(runtime)
        return settings.python if settings else None

    def options_for(self, runtime: str) -> dict[str, str]:
        settings = self.runtimes.get(runtime)
        return dict(settings.options) if settings else {}

    def elsewhere(self) -> Config:
        """Without the interpreters of this machine: another one has settings of its own."""
        runtimes = {name: each.having(python=None) for name, each in self.runtimes.items()}
        return self.having(runtimes=runtimes)

    def settings(self) -> dict[str, str]:
        """Every setting that has a value, by its dotted name, without secrets."""
        hidden = {
            name: each.having(options=safety.mask_values(each.options))
            for name, each in self.runtimes.items()
        }
        shown = self.having(runtimes=hidden).flat()
        return {
            k: safety.mask(str(v)) if k in ("store", "runs") else str(v) for k, v in shown.items()
        }


def load_config(*, folder: Path | None = None, store: str | Path | None = None) -> Config:
    """Read the user's file, then the project's, then the environment, then the flag."""
    merged = ConfigFile()
    origins: dict[str, str] = {}
    news: list[str] = []
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
        merged = ConfigFile(
            store=content.store or merged.store,
            runs=content.runs or merged.runs,
            machine=content.machine or merged.machine,
            runtimes=runtimes,
            defaults={**merged.defaults, **content.defaults},
        )
        origins |= dict.fromkeys(content.flat(), str(path))
        if path.name == PROJECT_FILE:
            news += _news(path, content)
    given = {name: os.environ.get(variable) for name, variable in VARIABLES.items()}
    if (store is not None or given["store"]) and origins.pop("runs", None):
        merged = merged.having(runs=None)  # it belongs to the store in the file
    for name, value in given.items():
        if value:
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
        except RuntimeError:  # a container's made-up user has no home
            raise UsageError(
                "there is no home folder to keep runs in",
                fix=f"--store DIR, or {VARIABLES['store']}=DIR in the environment",
            ) from None
    return Config(**msgspec.structs.asdict(merged), origins=origins, news=tuple(news))


def user_config_folder() -> Path:
    """The folder of the user's own settings; a RuntimeError where there is no home."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "trtbench"


def user_data_folder() -> Path:
    """The folder of runs by default."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "trtbench"


def _read(path: Path) -> ConfigFile:
    """Read one file; its paths are relative to where it is."""
    try:
        reason = safety.stranger(path)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    if reason is not None and _name(path) not in _read_trust().files:
        raise UsageError(
            f"the settings in {safety.clean_line(str(path))} are not yours, and are not used",
            facts={"reason": reason, "they can": "run programs under your name"},
            fix=f"trtbench doctor --trust {shlex.quote(str(path))}, after reading it; or remove it",
        )
    raw = safety.read_settings(path)
    flags = {
        field.name: field.type
        for field in fields_of(BenchRequest)
        if isinstance(field.about, Option) and field.about.setting
    }
    try:
        content = msgspec.convert(raw, type=ConfigFile)
        known = [(name, kind, None) for name, kind in flags.items()]
        defaults = msgspec.defstruct("Defaults", known, forbid_unknown_fields=True)
        whole = msgspec.defstruct("Whole", [("defaults", defaults)])
        msgspec.convert({"defaults": content.defaults}, type=whole)
    except msgspec.ValidationError as problem:
        reason = str(problem)
        place = reason.partition(" - at `$")[2].strip(".`")
        fix: str | None = f"correct {place or path.name}; it is written in TOML"
        if "unknown field" in reason:
            kind = RuntimeSettings if place.startswith("runtimes") else ConfigFile
            names = flags if place == "defaults" else kind.__struct_fields__
            fix = meant(reason.split("`")[1], names)
        raise UsageError(
            f"{path} has a setting that cannot be used", facts={"reason": reason}, fix=fix
        ) from None
    trusting = [name for name, each in content.runtimes.items() if "trust" in each.options]
    if trusting and path.name == PROJECT_FILE:  # it came together with the models
        raise UsageError(
            f"{path} says what is to be trusted, which only you can say",
            facts={"setting": f"runtimes.{trusting[0]}.options.trust"},
            fix="--opt trust=on on the command line, once you know where a model comes from",
        )

    def placed(text: str | None, *, program: bool = False) -> str | None:
        if text is None or is_url(text):
            return text
        found = str(safety.at_home(text))
        return found if program and "/" not in found else str(path.parent / found)

    return content.having(
        store=placed(content.store),
        runs=placed(content.runs),
        runtimes={
            name: each.having(python=placed(each.python, program=True))
            for name, each in content.runtimes.items()
        },
    )


# Settings of others: what a user trusted, and what was shown


class Trusted(Value, frozen=True, kw_only=True):
    """What a user trusted, and was shown, of the settings of others; one file for each user."""

    files: tuple[str, ...] = ()  # settings that count though another user can change them
    shown: dict[str, str] = {}
    """For each file of settings, a hash of the steering ones as they were shown last."""


def trust_settings(path: Path) -> Path:
    """Trust a file of settings, whoever owns it; gives the file."""
    file = path / PROJECT_FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"there are no settings at {file}", fix="give a trtbench.toml, or the folder it is in"
        )
    known, name = _read_trust(), _name(file)
    if name not in known.files:
        _write_trust(known.having(files=(*known.files, name)))
    return file


def distrust_settings(path: Path) -> bool:
    """Trust a file no longer; false where it was not trusted."""
    known = _read_trust()
    names = {_name(path), _name(path / PROJECT_FILE)}
    kept = tuple(each for each in known.files if each not in names)
    _write_trust(known.having(files=kept))
    return kept != known.files


def trusted_settings() -> tuple[str, ...]:
    """The files of settings that were trusted."""
    return _read_trust().files


def _news(path: Path, content: ConfigFile) -> list[str]:
    """What a project's file steers (code that is run, where runs go), once for each user."""
    steering = {
        key: safety.mask(str(value))
        for key, value in content.flat().items()
        if key in ("store", "runs") or key.rpartition(".")[2] in _STEERING
    }
    if not steering:
        return []
    digest = hashlib.sha256(msgspec.json.encode(steering, order="sorted")).hexdigest()[:16]
    known, name = _read_trust(), _name(path)
    if known.shown.get(name) == digest:
        return []
    with contextlib.suppress(UsageError, InputError, OSError, RuntimeError):
        _write_trust(known.having(shown={**known.shown, name: digest}))
    return [f"{path} sets {key} to {value}" for key, value in steering.items()]


def _name(path: Path) -> str:
    return safety.clean_line(str(path.resolve()))


def _read_trust() -> Trusted:
    """The user's own list; one that another user can write counts for nothing."""
    try:
        path = user_config_folder() / "trusted.json"
        if safety.stranger(path) is not None:
            return Trusted()
        return msgspec.json.decode(safety.read_bytes(path), type=Trusted)
    except (OSError, RuntimeError, InputError, msgspec.MsgspecError):
        return Trusted()


def _write_trust(trusted: Trusted) -> None:
    try:
        folder = user_config_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(folder / "trusted.json", msgspec.json.encode(trusted))
    except RuntimeError:
        raise UsageError(
            "there is no home folder to remember it in", fix="set XDG_CONFIG_HOME to a folder"
        ) from None
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
    """What the index keeps of a run: of its samples, or of what another tool printed."""
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
