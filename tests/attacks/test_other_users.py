"""Another user of this machine, who plants links and files where somebody else writes and reads."""

import os
from pathlib import Path

import numpy as np
import pytest
import records
from commands import as_another_user, files, trtbench, typed

import models
from trtbench.store.store import Store

QUICK = "--batch 1 --duration 10ms --warmup 1ms --no-until-steady"
OUTPUTS = (
    "report r1 --format html,md,csv,tex -o OUT", "site -o OUT", "runs series r1 -o OUT",
    "gate r1 --against r1 --max-slowdown 3% -o OUT", "check m.onnx m.onnx --batch 1 -o OUT",
    "eval m.onnx --task classification --data val.npz -o OUT", "import a.log -o OUT",
    "sweep m.onnx --batch 1 --axis duration=10ms --axis warmup=1ms -o OUT",
    "build m.onnx -r trtexec --batch 1 -o OUT/m.engine", f"bench m.onnx {QUICK} -o OUT/run",
    f"profile m.onnx {QUICK} -o OUT/p.csv --draw OUT/p.svg",
    "quantize m.onnx --precision fp16 -o OUT/q.onnx", "diff a.json a.json -o OUT/d.csv",
    "compare r1 r1 --output OUT",
)  # fmt: skip


@pytest.fixture
def mine(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's folder with a file, and beside it what the commands of this module need."""
    standin = Path(__file__).resolve().parents[1] / "standin"
    monkeypatch.setenv("PATH", f"{standin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRTBENCH_LOCKS", str(world / "locks"))
    models.tiny_model(world / "m.onnx")
    np.savez(world / "val.npz", data=np.zeros((2, 16), "f4"), labels=np.zeros(2, "i8"))
    (world / "a.log").write_text("Average over 10 runs is 1.5 ms (host walltime is 1.6 ms)\n")
    (world / "a.json").write_text('[{"count": 9}, {"name": "a", "averageMs": 1, "timeMs": 9}]')
    records.add(Store(world / "store"), records.record("r1"))
    (world / "home").mkdir()
    (world / "home" / "mine.txt").write_text("precious")
    return world / "home"


@pytest.mark.parametrize("words", OUTPUTS, ids=lambda words: words.split()[0])
def test_a_link_of_another_user_leads_no_output_elsewhere(mine: Path, words: str) -> None:
    def run(folder: str) -> tuple[int, str]:
        done = typed(*words.replace("OUT", folder).split())
        assert files(mine) == {"mine.txt"}, done.stderr
        assert (mine / "mine.txt").read_text() == "precious"
        return done.returncode, done.stderr

    world = mine.parent
    status, said = run("first")
    made = files(world / "first")
    assert made, said
    (world / "out").mkdir()
    for name in {name.partition("/")[0] for name in made} - {"run", "sweep.json", "journal.jsonl"}:
        target = mine / "mine.txt" if name in made else mine
        as_another_user("ln", "-s", target, name, folder=world / "out")
    assert run("out")[0] == status
    assert files(world / "out") >= made - {"q.json"}
    as_another_user("ln", "-s", mine, "link", folder=world)
    for folder in ("link", "link/deeper"):
        status, said = run(folder)
        assert (status, "is a link of nobody, and is not followed" in said) == (1, True), said


@pytest.mark.parametrize("name", [".", "runs", "models", "judged"])
def test_a_link_of_another_user_in_a_store_is_not_followed(mine: Path, name: str) -> None:
    store = mine.parent / "shared" / "store"
    store.parent.mkdir()
    link = (store / name).relative_to((store / name).parent)
    (store / name).parent.mkdir(exist_ok=True)
    as_another_user("ln", "-s", mine, link, folder=(store / name).parent)
    words = OUTPUTS[5].replace("OUT", "eval") if name == "judged" else f"bench m.onnx {QUICK}"
    keep = ("--keep-model",) if name == "models" else ()
    done = typed(*words.split(), *keep, "--store", store)
    assert files(mine) == {"mine.txt"}
    assert (done.returncode, "is a link of nobody" in done.stderr) == (1, True), done.stderr


def test_a_summary_of_ci_goes_through_no_link_of_another_user(mine, monkeypatch):
    as_another_user("ln", "-s", mine / "mine.txt", "summary.md", folder=mine.parent)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    assert typed("gate", "r1", "--against", "r1", "--max-slowdown", "3%").returncode == 1
    assert (mine / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("name", ["", "run.json", "samples.npz", "scores.json"])
def test_a_run_that_another_user_closed_hides_no_other(mine: Path, name: str) -> None:
    """Nor is it taken for damaged: whoever closed it can read it."""
    runs = mine.parent / "store" / "runs"
    as_another_user("cp", "-r", "r1", "r2", folder=runs)
    record = runs / "r2" / "run.json"
    record.write_text(record.read_text().replace('"r1"', '"r2"'))
    assert len(Store(runs.parent).index.find()) == 2
    if name == "scores.json":
        as_another_user("touch", "scores.json", folder=runs / "r2")
    as_another_user("cp", "-r", "r2", "r3", folder=runs)
    for run in ("r2", "r3"):  # one that the index knows, and one that it does not
        (runs / run).chmod(0o755)
        as_another_user("chmod", "000", f"{run}/{name}", folder=runs)
    shown = trtbench("runs", "show", "r2", plain=True, status=1)
    assert "cannot be read" in shown.stderr
    assert "Permission denied" in shown.stderr
    for words in ("reindex", "show r1"):
        done = trtbench("runs", *words.split(), plain=True)
        assert "Traceback" not in done.stderr
        assert "damaged" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    assert {entry.id: entry.kind for entry in Store(runs.parent).index.find()}["r2"] == "run"


def test_a_model_that_another_user_closed_cannot_be_read(mine: Path) -> None:
    as_another_user("mkdir", "theirs", folder=mine.parent)
    as_another_user("cp", "m.onnx", "theirs/m.onnx", folder=mine.parent)
    for mode, name in (("000", "theirs/m.onnx"), ("700", "theirs")):
        as_another_user("chmod", mode, name, folder=mine.parent)
        assert "cannot be read" in trtbench("bench", "theirs/m.onnx", plain=True, status=1).stderr


def test_an_engine_that_others_can_change_is_not_loaded(mine: Path) -> None:
    build = f"bench m.onnx -r trtexec {QUICK}"
    typed(*OUTPUTS[8].replace("OUT/", "").split(), status=0)
    keep = build.replace("m.onnx", "m.engine").replace("--batch 1 ", "--keep-model --tag release ")
    typed(*keep.split(), status=0)
    Path("m.engine").rename("new.engine")
    gate = "gate new.engine -r trtexec --against tag:release --max-slowdown 900% --launches 2"
    for mode in (0o755, 0o777):
        (mine.parent / "store").chmod(mode)
        assert "engine built by" in typed(*build.split(), status=0).stderr  # each user's own
        apart = "others can change it" in typed(*gate.split(), "--max-launches", 2).stderr
        assert apart == (mode == 0o777)
    assert "engine taken from" in typed(*build.split(), status=0).stderr
