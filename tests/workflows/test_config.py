"""Settings and requests: where they are found, which one wins, and what is made from fields."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import trtbench
from command import Say
from models import tiny_model
from trtbench import cli, verbs
from trtbench.cli import OLD_VERBS, command_from_verb
from trtbench.convert.build import default_builder, refuse_without_builder
from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import BrokenRuleError, UnavailableError, UsageError
from trtbench.core.plugins import Registry
from trtbench.core.spec import ModelRef
from trtbench.data import demo_file
from trtbench.requests import fields, measure, models, stored
from trtbench.requests.measure import BenchRequest, CompareRequest
from trtbench.requests.models import CheckRequest, EvalRequest
from trtbench.requests.run_spec import default_runtime
from trtbench.requests.settings import Config, RuntimeSettings, load_config
from trtbench.runtimes import RUNTIMES
from trtbench.verbs._verb import Verb, View, request_from_arguments


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("TRTBENCH_STORE", raising=False)
    (tmp_path / "config" / "trtbench").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep" / "deeper")
    return tmp_path


def user(home: Path, text: str) -> Path:
    path = home / "config" / "trtbench" / "config.toml"
    path.write_text(text)
    return path


def project(home: Path, text: str) -> Path:
    path = home / "project" / "trtbench.toml"
    path.write_text(text)
    return path


def test_flag_beats_environment_beats_project_beats_user_beats_default(home, monkeypatch):
    mine = user(home, "store = '/user'")
    assert (load_config().store, load_config().origins["store"]) == ("/user", str(mine))
    theirs = project(home, "store = '/project'")
    assert (load_config().store, load_config().origins["store"]) == ("/project", str(theirs))
    monkeypatch.setenv("TRTBENCH_STORE", "/environment")
    found = load_config()
    assert (found.store, found.origins["store"]) == ("/environment", "environment TRTBENCH_STORE")
    found = load_config(store="/flag")
    assert (found.store, found.origins["store"]) == ("/flag", "flag")


def test_files_are_merged_setting_by_setting_and_each_keeps_its_origin(home):
    mine = user(
        home,
        """
        [defaults]
        duration = "1s"
        threads = 2
        [runtimes.onnxruntime]
        python = "/user/python"
        [runtimes.onnxruntime.options]
        spinning = "off"
        """,
    )
    theirs = project(
        home,
        """
        [defaults]
        duration = "5s"
        [runtimes.onnxruntime.options]
        "session.dotted" = "x"
        """,
    )
    found = load_config()
    assert found.defaults == {"duration": "5s", "threads": 2}
    assert found.python_for("onnxruntime") == "/user/python"
    assert found.options_for("onnxruntime") == {"spinning": "off", "session.dotted": "x"}
    assert found.python_for("torch") is None
    assert found.origins["defaults.duration"] == str(theirs)
    assert found.origins["defaults.threads"] == str(mine)
    assert found.origins["runtimes.onnxruntime.options.session.dotted"] == str(theirs)
    assert set(found.origins) == set(found.settings())


def test_the_nearest_project_file_upward_is_the_one(home):
    project(home, "store = '/far'")
    (home / "project" / "deep" / "trtbench.toml").write_text("store = '/near'")
    assert load_config().store == "/near"
    assert load_config(folder=home / "project").store == "/far"


def test_paths_are_meant_from_the_file_that_says_them(home, monkeypatch):
    project(home, "store = 'runs-here'\n[runtimes.torch]\npython = 'envs/torch/bin/python'")
    found = load_config()
    assert found.store == str(home / "project" / "runs-here")
    assert found.python_for("torch") == str(home / "project" / "envs/torch/bin/python")
    project(home, "store = '~/runs'\n[runtimes.torch]\npython = 'python3.12'")
    monkeypatch.setenv("HOME", "/home/someone")
    found = load_config()
    assert found.store == "/home/someone/runs"
    assert found.python_for("torch") == "python3.12", "a bare name is looked up on the path"
    project(home, "[runtimes.torch]\npython = '~nobody-is-called-so/x'")
    assert str(load_config().python_for("torch")).endswith("/~nobody-is-called-so/x")


@pytest.mark.parametrize(
    ("text", "reason", "fix"),
    [
        ("stor = 'x'", "unknown field `stor`", "did you mean store?"),
        ("[runtimes.torch]\npyton = 'x'", "unknown field `pyton`", "did you mean python?"),
        ("[defaults]\nthreads = 'two'", "Expected `int", "correct defaults.threads"),
        ("[runtimes]\ntorch = 'x'", "Expected `object`, got `str`", "correct runtimes"),
        ("store = 3", "Expected `str", "correct store"),
        ("xyzzy = 3", "unknown field `xyzzy`", "one of store, runs, machine"),
        ("[defaults\n", "line 1", "TOML"),
        ("[defaults]\nduration = 5", "defaults.duration: the duration '5' has no unit", "500ms"),
        ("[defaults]\nruntime = 'onnx'", "defaults.runtime: there is no runtime", "onnxruntime"),
        ("[runtimes.pytorch]\npython = 'x'", "runtimes.pytorch", "did you mean torch?"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(home, text, reason, fix):
    path = project(home, text)
    with pytest.raises(UsageError) as caught:
        load_config()
    assert str(path) in caught.value.message
    assert reason in caught.value.facts["reason"]
    if fix:
        assert fix in caught.value.fix


def engine(path: Path, head: bytes = b"ftrt") -> ModelRef:
    path.write_bytes(head + bytes(60))
    return ModelRef(path=str(path), format="engine")


def here(monkeypatch: pytest.MonkeyPatch, registry: Registry[Any], **problems: str | None) -> None:
    """Let plug-ins be there or not: ``None`` is no problem."""
    for name, problem in problems.items():
        monkeypatch.setattr(registry.load(name), "available", lambda told=problem: told)


PYTHON_OF_TENSORRT = {"tensorrt": RuntimeSettings(python="/opt/trt/python")}


@pytest.mark.parametrize(
    ("tensorrt", "trtexec", "runtimes", "with_outputs", "chosen"),
    [
        (None, None, {}, False, "tensorrt"),
        ("not installed", None, {}, False, "trtexec"),
        ("not installed", None, {}, True, "tensorrt"),
        ("not installed", None, PYTHON_OF_TENSORRT, False, "tensorrt"),
        ("not installed", "not found", {}, False, "tensorrt"),
    ],
)
def test_an_engine_goes_to_what_is_there_and_hands_out_what_is_asked_for(
    tensorrt: str | None,
    trtexec: str | None,
    runtimes: dict[str, RuntimeSettings],
    with_outputs: bool,
    chosen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, RUNTIMES, tensorrt=tensorrt, trtexec=trtexec)
    found, config = engine(tmp_path / "a.engine"), Config(store="x", runtimes=runtimes)
    assert default_runtime(found, config, with_outputs=with_outputs) == chosen


def test_an_engine_of_rtx_goes_to_rtx(tmp_path: Path) -> None:
    assert default_runtime(engine(tmp_path / "a", b"vtrt"), Config(store="x")) == "tensorrt-rtx"


@pytest.mark.parametrize(
    ("tensorrt", "trtexec", "options", "chosen"),
    [
        (None, None, {}, "trtexec"),
        (None, "not found", {}, "tensorrt"),
        (None, "not found", {"binary": "/opt/trtexec"}, "trtexec"),
        ("not installed", "not found", {}, "trtexec"),
    ],
)
def test_an_engine_is_built_by_what_is_there(
    tensorrt: str | None,
    trtexec: str | None,
    options: dict[str, str],
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, BUILDERS, tensorrt=tensorrt, trtexec=trtexec)
    here(monkeypatch, BUILDERS, **{"tensorrt-rtx": "not installed"})
    assert default_builder(Config(store="x"), options) == chosen


def test_without_any_builder_a_build_says_what_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    here(monkeypatch, BUILDERS, tensorrt="not installed", trtexec="not found")
    here(monkeypatch, BUILDERS, **{"tensorrt-rtx": "not installed"})
    with pytest.raises(UnavailableError, match="no builder of engines") as caught:
        refuse_without_builder(Config(store="x"), {})
    assert "trtbench[rtx]" in str(caught.value.fix)
    assert {"trtexec", "tensorrt", "tensorrt-rtx"} <= set(caught.value.facts)
    model = tiny_model(tmp_path / "tiny.onnx", batch=1)
    assert "trtbench[rtx]" in say("build", model, status=4).err


ROOT = Path(__file__).resolve().parents[2]


def all_requests() -> Iterator[type[fields.VerbRequest]]:
    own = [
        importlib.import_module(f"{verbs.__name__}.{each.name}")
        for each in pkgutil.iter_modules(verbs.__path__)
    ]
    for module in (models, measure, stored, *own):
        for name, value in vars(module).items():
            if name.endswith("Request") and value.__module__ == module.__name__:
                yield value


def command_of(request: type[fields.VerbRequest], see: Callable[[Any], None]) -> click.Command:
    verb = Verb(request, lambda asked, caller: see(asked), lambda *shown: None, View, doc="Try.")
    return command_from_verb("try", verb)


@pytest.mark.parametrize("request_type", list(all_requests()), ids=lambda each: each.__name__)
def test_what_is_not_typed_is_as_a_python_user_gets_it(
    request_type: type[fields.VerbRequest],
) -> None:
    seen: list[fields.VerbRequest] = []

    command = command_of(request_type, seen.append)

    words: list[str] = []
    for field in fields.fields_of(request_type):
        if field.is_required:
            word = field.choices[0] if field.choices else "x"
            words += [word] if isinstance(field.about, fields.Argument) else [field.flag, word]
    done = CliRunner().invoke(command, words)
    assert done.exception is None, done.output
    for field in fields.fields_of(request_type):
        if not field.is_required:
            value = getattr(seen[0], field.name)
            assert str(value) == str(field.default) or not (value or field.default), field.name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": "8"}, "--batch must be an integer, not '8'"),
        ({"warmup": -1.0}, "-1.0 s is not a valid duration"),
        ({"rate": 0.0}, "above zero"),
        ({"rate": float("nan")}, "above zero"),
        ({"rate": float("inf")}, "finite"),
        ({"protocol": "serv"}, "--protocol serv is not valid"),
        ({"address": "head:6379"}, "needs an executor"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_to_python_users_too(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        BenchRequest(model="m.onnx", **given)  # type: ignore[arg-type]


def test_only_fields_that_mean_the_same_are_handed_on() -> None:
    asked = EvalRequest(models=["m.onnx"], task="depth", data="d", warmup="10%", batch=4)
    one = fields.converted(asked, BenchRequest, model="m.onnx")
    assert one.batch == 4
    assert one.warmup is None, "of eval it is a part of the batches, of bench a time"
    pair = CompareRequest(baseline="a.onnx", launches=7, threads=2, runtime=("x", "y"))
    one = fields.converted(pair, BenchRequest, model="a.onnx")
    assert (one.threads, one.launches, one.runtime) == (2, None, None)


def test_users_editors_know_the_arguments(tmp_path: Path) -> None:
    """A type checker takes the words of the flags and refuses others."""
    script = tmp_path / "mine.py"
    script.write_text(
        "import trtbench\n"
        'trtbench.bench("m.onnx", batch=8, warmup="500ms", protocol="serve").times\n'
        'trtbench.quantize("m.onnx", precision="int8", data="random").difference\n'
        'trtbench.bench("m.onnx", bacth=8)\n'
        'trtbench.quantize("m.onnx", precision="int9")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-site-packages",
         "--ignore-missing-imports", "--follow-imports=silent", str(script)],
        capture_output=True, text=True, check=False,
        cwd=ROOT,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "mine.py" in line and "error" in line]
    assert [line.split(":")[1] for line in lines] == ["4", "5"], done.stdout + done.stderr
    assert '"bacth"' in lines[0]


def test_a_series_is_a_list_or_one_or_the_rest_of_the_arguments() -> None:
    for arguments in ((["a", "b"],), ("a", "b")):
        made = request_from_arguments(EvalRequest, arguments, {"task": "depth", "data": "d"})
        assert list(made.models) == ["a", "b"]
    assert CheckRequest("a", Path("b")).candidates == (Path("b"),)


def test_verbs_that_are_now_part_of_others_are_understood() -> None:
    for verb, (now, *_) in OLD_VERBS.items():
        said = CliRunner().invoke(cli.trtbench, [verb, "--help"], prog_name="trtbench")
        assert said.output.startswith(f"Usage: trtbench {now}")


def test_a_check_from_python_judges_its_rules_and_refuses_nonsense(place: Path) -> None:
    sides = demo_file("digits.onnx"), demo_file("digits.int8.onnx")
    with pytest.raises(UsageError):
        trtbench.check(*sides, random=4, floor="off", expect=["no rule at all"])
    assert not (place / "store").exists(), "refused before anything is run"
    with pytest.raises(BrokenRuleError, match="expectation failed"):
        trtbench.check(*sides, random=4, floor="off", expect=["max_abs<=1e-7"])
    assert list(place.glob("store/results/check-*/check.json")), "what was found is kept"
    assert [path.name for path in place.iterdir()] == ["store"], "and nothing else is written"
