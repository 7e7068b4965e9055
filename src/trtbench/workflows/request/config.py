"""Settings from the project's ``trtbench.toml`` and the user's configuration folder; flags win."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trtbench.boundary import at_home, check_tag, mask_values, read_settings
from trtbench.domain.spec import Value
from trtbench.domain.words import Scalar
from trtbench.errors import UsageError, meant
from trtbench.store.place import is_url, without_password
from trtbench.workflows.request.fields import Option, fields_of
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.trust import first_shown, refuse_strangers, user_config_folder

if TYPE_CHECKING:
    from trtbench.store.store import Store

PROJECT_FILE = "trtbench.toml"
STORE_VARIABLE = "TRTBENCH_STORE"
RUNS_VARIABLE = "TRTBENCH_RUNS"
MACHINE_VARIABLE = "TRTBENCH_MACHINE"
_PLACES = ("store", "runs")
"""Settings that are a folder or a URL."""


class RuntimeSettings(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is set for one runtime."""

    python: str | None = None
    """The interpreter its jobs run in."""
    options: dict[str, str] = {}
    """Options of the runtime itself, as ``--opt`` gives them."""


class ConfigFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one configuration file."""

    store: str | None = None
    """A folder, ``sqlite:///file`` or ``postgresql://user@host/database``."""
    runs: str | None = None
    """A folder or an fsspec URL for run directories; beside the index when it is not said."""
    machine: str | None = None
    """What this machine is called: runs of one label are compared, whatever the host's name."""
    runtimes: dict[str, RuntimeSettings] = {}
    defaults: dict[str, Scalar] = {}
    """Of flags, written as on the command line."""


class Config(Value, frozen=True, kw_only=True):
    """All files and the environment taken together."""

    store: str
    runs: str | None = None
    machine: str | None = None
    runtimes: dict[str, RuntimeSettings] = {}
    defaults: dict[str, Scalar] = {}
    """Of flags, written as on the command line."""
    origins: dict[str, str] = {}
    """Where each setting came from: ``default``, a file, or an environment variable."""
    news: tuple[str, ...] = ()
    """What a project's file steers and this user has not been shown before."""

    def python_for(self, runtime: str) -> str | None:
        settings = self.runtimes.get(runtime)
        return settings.python if settings else None

    def elsewhere(self) -> Config:
        """Leave out the interpreters of this machine: another one has settings of its own."""
        runtimes = {name: each.having(python=None) for name, each in self.runtimes.items()}
        return self.having(runtimes=runtimes)

    def options_for(self, runtime: str) -> dict[str, str]:
        settings = self.runtimes.get(runtime)
        return dict(settings.options) if settings else {}

    def settings(self) -> dict[str, str]:
        """List every setting that has a value, by its dotted name."""
        found = {"store": without_password(self.store)}
        if self.runs is not None:
            found["runs"] = without_password(self.runs)
        if self.machine is not None:
            found["machine"] = self.machine
        for name, runtime in self.runtimes.items():
            if runtime.python:
                found[f"runtimes.{name}.python"] = runtime.python
            for key, value in mask_values(runtime.options).items():
                found[f"runtimes.{name}.options.{key}"] = value
        found |= {f"defaults.{key}": str(value) for key, value in self.defaults.items()}
        return found


def load_config(*, folder: Path | None = None, store: str | Path | None = None) -> Config:
    """Read the user's file, then the project's, then the environment, then the flag."""
    merged: dict[str, object] = {}
    origins: dict[str, str] = {}
    news: list[str] = []
    for path in _files(folder or Path.cwd()):
        content = _read(path)
        news += _news(path, content)
        for key, value in _flat(content).items():
            merged[key] = _placed(key, value, path.parent)
            origins[key] = str(path)
    if store is not None or os.environ.get(STORE_VARIABLE):
        merged.pop("runs", None)  # it was said of the store in the file
        origins.pop("runs", None)
    for key, variable in zip(_PLACES, (STORE_VARIABLE, RUNS_VARIABLE), strict=True):
        if os.environ.get(variable):
            merged[key], origins[key] = os.environ[variable], f"environment {variable}"
    if os.environ.get(MACHINE_VARIABLE):
        merged["machine"] = os.environ[MACHINE_VARIABLE]
        origins["machine"] = f"environment {MACHINE_VARIABLE}"
    if store is not None:
        merged["store"], origins["store"] = str(store), "flag"
    if "store" not in merged:
        merged["store"], origins["store"] = str(_default_store()), "default"
    return _config(merged, origins).having(news=tuple(news))


def user_data_folder() -> Path:
    """Name the folder of runs when nothing else is said."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "trtbench"


def _default_store() -> Path:
    try:
        return user_data_folder()
    except RuntimeError:  # a container's made-up user has no home
        raise UsageError(
            "there is no home folder to keep runs in",
            fix=f"--store DIR, or {STORE_VARIABLE}=DIR in the environment",
        ) from None


def project_file(folder: Path) -> Path | None:
    """Find the nearest ``trtbench.toml`` at or above a folder."""
    for each in (folder, *folder.parents):
        if (each / PROJECT_FILE).is_file():
            return each / PROJECT_FILE
    return None


def _files(folder: Path) -> list[Path]:
    candidates = [project_file(folder.absolute())]
    with contextlib.suppress(RuntimeError):  # no home, no settings in it
        candidates.insert(0, user_config_folder() / "config.toml")
    return [path for path in candidates if path is not None and path.is_file()]


def _read(path: Path) -> ConfigFile:
    refuse_strangers(path)
    raw = read_settings(path)
    try:
        content = msgspec.convert(raw, type=ConfigFile)
        _refuse_defaults(content.defaults)
        _refuse_trust(path, content)
    except msgspec.ValidationError as problem:
        raise _invalid(path, str(problem)) from None
    return content


def default_types() -> dict[str, object]:
    """List the flags whose default a file may set, and what they hold."""
    return {
        field.name: field.type
        for field in fields_of(BenchRequest)
        if isinstance(field.about, Option) and field.about.setting
    }


def _refuse_defaults(given: dict[str, Scalar]) -> None:
    known = default_types()
    for name, value in given.items():
        if name not in known:
            raise msgspec.ValidationError(
                f"Object contains unknown field `{name}` - at `$.defaults`"
            )
        try:
            msgspec.convert(value, type=known[name])
        except msgspec.ValidationError as problem:
            raise msgspec.ValidationError(f"{problem} - at `$.defaults.{name}`") from None


_STEERING = ("python", "binary", "plugins", "factory")
"""Settings of a runtime that name programs, libraries and functions."""


def _refuse_trust(path: Path, content: ConfigFile) -> None:
    """Let no project say that the user trusts its models: they came together."""
    trusting = [name for name, each in content.runtimes.items() if "trust" in each.options]
    if trusting and path.name == PROJECT_FILE:
        raise UsageError(
            f"{path} says what is to be trusted, which only you can say",
            facts={"setting": f"runtimes.{trusting[0]}.options.trust"},
            fix="--opt trust=on on the command line, once you know where a model comes from",
        )


def _news(path: Path, content: ConfigFile) -> list[str]:
    """Say once what a project's file steers: code that is run, and where runs go."""
    if path.name != PROJECT_FILE:
        return []
    steering = {
        key: without_password(str(_placed(key, value, path.parent)))
        for key, value in _flat(content).items()
        if key in _PLACES or key.rpartition(".")[2] in _STEERING
    }
    if not first_shown(path, steering):
        return []
    return [f"{path} sets {key} to {value}" for key, value in steering.items()]


_EXAMPLES = {
    "str": '{} = "..."', "int": "{} = 4", "float": "{} = 0.5", "bool": "{} = true",
    "object": "[{}], and its settings on lines below it",
}  # fmt: skip
"""How values of a type are written, by msgspec's name of it."""


def _invalid(path: Path, reason: str) -> UsageError:
    words, _, place = reason.partition(" - at `$")
    place = place.strip(".`")
    if "unknown field" in reason:
        kind = RuntimeSettings if place.startswith("runtimes") else ConfigFile
        known = default_types() if place == "defaults" else kind.__struct_fields__
        fix = meant(reason.split("`")[1], known)
    else:
        wanted = words.removeprefix("Expected `").partition("`")[0].split(" | ")[0]
        place = place.replace("[...]", ".NAME")
        fix = _EXAMPLES.get(wanted, "{} = ...").format(place)
    return UsageError(
        f"{path} has a setting that cannot be used", facts={"reason": reason}, fix=fix
    )


def _flat(content: ConfigFile) -> dict[str, object]:
    """Dotted names and values of what a file really sets."""
    flat: dict[str, object] = {}
    for key in (*_PLACES, "machine"):
        if getattr(content, key) is not None:
            flat[key] = getattr(content, key)
    for name, runtime in content.runtimes.items():
        if runtime.python is not None:
            flat[f"runtimes.{name}.python"] = runtime.python
        for key, value in runtime.options.items():
            flat[f"runtimes.{name}.options.{key}"] = value
    return flat | {f"defaults.{key}": value for key, value in content.defaults.items()}


def _placed(key: str, value: object, folder: Path) -> object:
    """Paths in a file are meant from where the file is."""
    is_path = key in _PLACES or key.endswith(".python")
    if not is_path or is_url(str(value)):
        return value
    text = str(at_home(str(value)))
    if Path(text).is_absolute() or (key not in _PLACES and "/" not in text):
        return text
    return str(folder / text)


def _config(merged: dict[str, Any], origins: dict[str, str]) -> Config:
    runtimes: dict[str, dict[str, Any]] = {}
    defaults: dict[str, Any] = {}
    if "machine" in merged:
        check_tag(str(merged["machine"]), where=origins["machine"])
    for key, value in merged.items():
        if key.startswith("defaults."):
            defaults[key.removeprefix("defaults.")] = value
        if key.startswith("runtimes."):
            _, name, field, *rest = key.split(".", 3)
            settings = runtimes.setdefault(name, {"options": {}})
            if rest:
                settings["options"][rest[0]] = value
            else:
                settings[field] = value
    return Config(
        store=merged["store"],
        runs=merged.get("runs"),
        machine=merged.get("machine"),
        runtimes={name: RuntimeSettings(**settings) for name, settings in runtimes.items()},
        defaults=defaults,
        origins=origins,
    )


def open_store(
    config: Config, *, tell: Callable[[str], None] | None = None, at_once: bool = True
) -> Store:
    """Open the store that the settings name, with its run directories where they say."""
    from trtbench.store.store import Store
    from trtbench.workflows.request.cached import cached_from_run

    home = None
    with contextlib.suppress(RuntimeError):  # no home; only some stores need one
        home = user_data_folder()
    return Store(
        config.store,
        runs=config.runs,
        home=home,
        describe=cached_from_run,
        tell=tell,
        at_once=at_once,
    )
