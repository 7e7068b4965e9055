"""Secrets are planted wherever a user may write one; then every file and screen is searched."""

import os
import shlex
import sqlite3
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from commands import typed

import models
from trtbench.core.run import Environment, FailedRun, without_secrets
from trtbench.core.safety import mask
from trtbench.core.spec import ModelRef, RunSpec

SECRETS = ("hunter2-in-the-url", "hunter2-in-a-flag", "hunter2-in-an-option", "hunter2-in-the-file")
QUICK = ("--batch", "1", "--duration", "20ms", "--warmup", "1ms", "--no-until-steady")


def leaks(folder: Path) -> list[str]:
    """Files whose name or content, archives unpacked, has a planted secret."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            texts = [str(path).encode(), *_contents(path)]
            found += [f"{path}: {s}" for s in SECRETS if any(s.encode() in t for t in texts)]
    return found


def _contents(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


@pytest.fixture
def world(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRTBENCH_LOCKS", str(world / "locks"))
    monkeypatch.delenv("TRTBENCH_STORE")
    for name in ("m.onnx", "n.onnx"):
        models.tiny_model(world / name)
    return world


@pytest.mark.slow
def test_no_secret_reaches_the_store_a_document_or_a_screen(world: Path) -> None:
    # A file:// URL takes credentials as any URL does, and needs no server.
    store = f"file://bench:{SECRETS[0]}@localhost{world / 'store'}"
    said = []

    def run(*words: object, status: int = 0) -> None:
        done = typed(*words, status=status)
        said.append(done.stdout + done.stderr)

    place = ("--store", store)
    run("bench", "m.onnx", *QUICK, *place, "--tag", "a")
    run("bench", "m.onnx", *QUICK, *place, "-o", world / "out")
    turns = ["--batch", "1", "--launches", "2", "--max-launches", "2", "--pairs", "20"]
    run("compare", "m.onnx", "n.onnx", *turns, *place)
    run("bench", "m.onnx", *QUICK, *place, "--opt", f"api_key={SECRETS[2]}", status=2)
    sweep = ("--batch", "1,2", "-o", world / "sweep", "--axis", "duration=20ms")
    run("sweep", "m.onnx", *place, *sweep)
    (world / "broken.onnx").write_bytes(os.urandom(2000))
    run("bench", "broken.onnx", *QUICK, *place, status=1)
    run("runs", *place)
    run("runs", "show", "last", *place, "--json")
    run("report", "last", *place, "-o", world / "report")
    run("site", *place, "-o", world / "site")
    run("bench", "m.onnx", "--store", f"nosuch://bench:{SECRETS[0]}@host/x", status=2)
    (world / "trtbench.toml").write_text(f"store = 'postgresql://b:{SECRETS[3]}@127.0.0.1:1/x'\n")
    run("doctor")
    run("runs", status=1 if find_spec("psycopg") else 4)
    (world / "trtbench.toml").unlink()
    assert leaks(world) == []
    assert not [secret for secret in SECRETS for text in said if secret in text]
    with sqlite3.connect(world / "store" / "index.sqlite") as index:
        dumped = "\n".join(index.iterdump())
    assert "m.onnx" in dumped
    assert "hunter2" not in dumped
    assert "file://bench:***@localhost" in (world / "out" / "run.json").read_text()


def test_secrets_in_options_and_commands_of_a_program_are_masked_in_the_record() -> None:
    record = FailedRun(
        id="r",
        created="2026-01-01T00:00:00+00:00",
        spec=RunSpec(
            model=ModelRef(path="m.onnx", format="onnx"),
            runtime="trtexec",
            options={"api_key": SECRETS[2], "binary": "/usr/bin/trtexec"},
            extra_args=("--token", SECRETS[1], f"--x=http://u:{SECRETS[0]}@h"),
        ),
        environment=Environment(host="h", os="o", command=f"trtbench --password {SECRETS[1]}"),
        stage="x",
        reason="y",
    )
    text = repr(without_secrets(record))
    assert "hunter2" not in text
    assert "/usr/bin/trtexec" in text


def test_a_program_that_repeats_its_command_keeps_no_secret(world, monkeypatch):
    standin = Path(__file__).resolve().parents[1] / "standin"
    monkeypatch.setenv("PATH", f"{standin}{os.pathsep}{os.environ['PATH']}")
    place = ("--store", world / "store")
    url = f"https://u:{SECRETS[0]}@h/x.so?token={SECRETS[1]}&api_key={SECRETS[2]}"
    said = []
    model, plugins = ("m.onnx", "-r", "trtexec"), ("--", f"--plugins={url}")
    for command in (
        ("bench", *model, *QUICK, *place, *plugins),
        ("build", *model, "-o", "made.engine", "--json", *plugins),
        ("runs", "show", "last", *place),
        ("runs", "show", "last", *place, "--json"),
        ("report", "last", *place, "-o", world / "report", "--format", "html,md,json,csv,tex"),
        ("site", *place, "-o", world / "site"),
    ):
        done = typed(*command)
        said.append(done.stdout + done.stderr)
    assert "u:***@h/x.so?token=***" in "".join(said)
    assert not [secret for secret in SECRETS for text in said if secret in text]
    assert "u:***@h/x.so" in (world / "made.engine.json").read_text()
    assert [each for each in world.rglob("*.log") if "token=***" in each.read_text()]
    assert leaks(world) == []


def test_places_that_are_shown_or_kept_take_no_secret(world):
    (world / "hosts.toml").write_text(f"[[host]]\naddress = 'me:{SECRETS[0]}@board'\n")
    (world / "s.toml").write_text(
        f"models = ['m.onnx']\n[options]\n'opt.hf_token' = '{SECRETS[2]}'\n"
    )
    place = ("--store", world / "store")
    for words, told in (
        (("bench", "m.onnx", *QUICK, *place, "--executor", "ssh", "--hosts", "hosts.toml"),
         "contain a password"),
        (("sweep", "s.toml", *place, "-o", "swept"), "looks like a secret"),
        (("bench", "m.onnx", *QUICK, *place, "--opt", f"api_key={SECRETS[2]}"), "no option"),
        (("bench", "m.onnx", *QUICK, *place, "--tag", f"token={SECRETS[1]}"), "like a secret"),
    ):  # fmt: skip
        done = typed(*words)
        assert done.returncode != 0, words
        assert told in done.stderr, words
        assert "hunter2" not in done.stdout + done.stderr, words
    for each in ("hosts.toml", "s.toml"):
        (world / each).unlink()
    assert leaks(world) == []


@pytest.mark.parametrize(
    "password",
    [
        "1234/hunter2", "1234,hunter2", "12;hunter2", "1)hunter2", "8]hunter2", "9'hunter2",
        'hun"ter2', "hunter 2", "hunter2@home", "hunter2'quoted' x", "%2Fhunter2",
    ],
)  # fmt: skip
@pytest.mark.parametrize("user", ["bench", "team/bench"])
def test_no_password_of_a_store_is_kept_whatever_it_consists_of(world, user, password):
    store = f"file://{user}:{password}@localhost{world / 'store'}"
    done = typed("bench", "m.onnx", *QUICK, "--store", store)
    shown = typed("runs", "show", "last", "--json", "--store", store)
    broken = typed("bench", "missing.onnx", "--store", store)
    texts = [path.read_bytes() for path in world.rglob("*") if path.is_file()]
    texts += [(each.stdout + each.stderr).encode() for each in (done, shown, broken)]
    for form in (password, quote(password), unquote(password), shlex.quote(password)):
        assert not [text for text in texts if form.encode() in text]


@pytest.mark.parametrize(
    "token",
    [
        "pypi-AgEIcHlwaS5vcmcCJDExMTExMTExLTIyMjI", "ya29.a0AfB_byC-1234567890abcdef",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789", "dapi0123456789abcdef0123456789abcdef",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "curl -u bench:hunter2-secret https://x",
        "curl -sS --user 'bench:hunter2 secret' https://x", "SSHPASS=hunter2-secret sshpass -e ssh",
    ],
)  # fmt: skip
def test_tokens_of_other_services_are_hidden(token: str) -> None:
    hidden = mask(f"[I] run by {token} end")
    assert "hunter2" not in hidden
    assert "***" in hidden
    assert hidden.startswith("[I] run by ")
