"""Comparisons, gates and reports end to end, on real child processes and ONNX Runtime."""

import contextlib
import dataclasses
import importlib
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest

import trtbench
from models import conv_model, linear_model, tiny_model
from trtbench.cli import run as run_command
from trtbench.compare.compare import compare, comparison_from_runs
from trtbench.compare.turns import Duet, Sides, pair_design
from trtbench.core.errors import IncomparableError, InputError, StoreError, UsageError
from trtbench.core.run import Fact
from trtbench.core.spec import RunSpec
from trtbench.host.telemetry import Counters
from trtbench.measure.watch import Watch
from trtbench.report.sections.verdicts import document_from_comparisons
from trtbench.requests.execution import Execution
from trtbench.requests.measure import BenchRequest, CompareRequest, PairFields
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store

turns = importlib.import_module("trtbench.compare.turns")  # trtbench.compare is the verb
QUICK = {"batch": 1, "threads": 1}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A small network and one that does many times the work, whatever else the machine does."""
    folder = tmp_path_factory.mktemp("models")
    small = conv_model(folder / "small.onnx", channels=4, size=16, layers=2)
    deep = conv_model(folder / "deep.onnx", channels=4, size=16, layers=48)
    return str(small), str(deep)


def asked(baseline: str, *candidates: str, **changes: object) -> CompareRequest:
    settings = {"launches": 4, "max_launches": 4, "pairs": 30, **QUICK, **changes}
    return CompareRequest(baseline=baseline, candidates=candidates, **settings)  # type: ignore[arg-type]


@pytest.mark.usefixtures("place")
def test_what_cannot_be_compared_is_said_before_measuring_and_opens_no_gate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, how in (("a", {}), ("wide", {"inputs": 32}), ("nan", {"divisor": 0.0})):
        linear_model(Path(f"{name}.onnx"), **how)  # type: ignore[arg-type]
    quick = ["--duration", "20ms", "--launches", "1"]

    def say(*words: str) -> tuple[int, str]:
        status, said = run_command([*words]), capsys.readouterr()
        return status, " ".join((said.out or said.err).split())

    status, said = say("compare", "a.onnx", "wide.onnx")
    assert (status, "not comparable: input shapes or types differ" in said) == (3, True)
    with pytest.raises(IncomparableError):
        trtbench.compare("a.onnx", "wide.onnx")
    lenient = ["--on-unclear", "pass", "--max-slowdown", "900%"]
    assert say("gate", "wide.onnx", "--against", "a.onnx", *lenient)[0] == 3
    assert not len(trtbench.runs()), "nothing was measured"
    for name in ("a", "wide", "nan"):
        assert say("bench", f"{name}.onnx", "--tag", name, *quick)[0] == 0
    assert "H03" in {each.code for each in trtbench.bench("nan.onnx", duration="20ms").findings}
    for stored, fresh in (("tag:a", "wide.onnx"), ("wide.onnx", "tag:a"), ("tag:a", "tag:wide")):
        status, said = say("gate", stored, "--against", fresh, *lenient, *quick)
        assert (status, said.startswith("FAIL: slowdown<=900%: not comparable")) == (3, True), said
    status, said = say("gate", "nan.onnx", "--metric", "p50<1min", *quick)
    assert (status, said.startswith("FAIL: finite outputs: ")) == (3, True)
    status, said = say("gate", "a.onnx", "--metric", "median<1min", "--metric", "max>=0s", *quick)
    assert (status, said[:19]) == (0, "PASS (2 of 2 rules)"), said
    late = ("--protocol", "server", "--rate", "200000/s", "--json")
    status, said = say("gate", "a.onnx", "--metric", "median<1min", *late, *quick)
    assert (status, said.count("no error H37"), said.count('"code": "H37"')) == (3, 2, 1), said
    status, said = say("compare", "tag:a", "tag:wide")
    assert (status, "wide.onnx and a.onnx cannot be compared: input shapes" in said) == (3, True)
    assert say("bench", "a.onnx", "--tag", "again", *quick)[0] == 0
    status, said = say("compare", "tag:a", "tag:again")
    assert status == 0
    assert "no interval over launches; measure both in turn: trtbench compare" in said
    for number, (tag, rate) in enumerate((("s", 90), ("s", 90), ("t", 80)), 1):
        flags = ("--protocol", "server", "--rate", f"{rate}/s", "--tag", f"{tag}{number}")
        assert say("bench", "a.onnx", *flags, *quick)[0] == 0
    typed = " --protocol server --rate 90/s"
    assert typed in " ".join(say("compare", "tag:s1", "tag:s2")[1].split())
    assert "in turn: " not in say("compare", "tag:s1", "tag:t3", "--accept", "rate_hz")[1]
    runs = trtbench.load("tag:a"), trtbench.load("tag:again")
    assert {each.interval for each in trtbench.compare(*runs).verdicts} == {None}
    assert trtbench.report(runs[0], output="report", format="md")
    assert trtbench.gate(runs[0], metrics="median<1min").open


@pytest.mark.parametrize(
    "changes", [{"protocol": "server", "rate": "200/s"}, {"protocol": "first"}, {"gap": "1ms"}]
)
def test_a_protocol_with_a_loop_of_its_own_does_not_take_turns(
    changes: dict[str, str], models: tuple[str, str], store: Store, config: Config
) -> None:
    flags = {**QUICK, "duration": 0.05, "warmup": 0.01, "until_steady": False, **changes}
    wish = asked(models[0], models[0], launches=2, max_launches=2, **flags)
    found = compare(wish, store=store, config=config)[0]
    assert found.mode == "launches"
    wish = asked(models[0], models[0], mode="one-process", **flags)
    with pytest.raises(UsageError, match="can take turns"):
        compare(wish, store=store, config=config)


@pytest.mark.parametrize(
    "mode",
    ["one-process", "lock-step", pytest.param("launches", marks=pytest.mark.real("minutes"))],
)
def test_a_slower_model_is_called_slower_in_every_design(
    mode: str, models: tuple[str, str], store: Store, config: Config
) -> None:
    flags = {**QUICK, "duration": 0.1, "warmup": 0.05, "until_steady": False}
    wish = asked(models[0], models[1], mode=mode, launches=5, max_launches=10, **flags)
    found = compare(wish, store=store, config=config)[0]
    assert found.mode == mode
    head = found.comparison.verdicts[0]
    assert (head.metric, head.kind) == ("host", "slower")
    assert head.ratio is not None
    assert head.ratio > 1.5
    assert found.comparison.design == ("launches" if mode == "launches" else "duet")


def test_both_sides_are_kept_as_runs_whose_rows_pair_and_are_held_against_times_alone(
    models: tuple[str, str], store: Store, config: Config
) -> None:
    found = compare(asked(*models), store=store, config=config)[0]
    first, second = store.load(found.baseline.id), store.load(found.candidate.id)
    assert len(first.times) == len(second.times) == 4 * 30
    assert pair_design(first, second) == "duet"
    assert first.times.host is not None
    shares = (side.times.stamps["second"].mean() for side in (first, second))
    assert sum(shares) == pytest.approx(1)
    again = comparison_from_runs(first, second)
    assert again.verdicts[0] == found.comparison.verdicts[0]
    on_gpu = dataclasses.replace(found, mode="bursts", interference=None)
    shown = str(document_from_comparisons([on_gpu]))
    assert "share the device: bench is alone, and may differ" in shown
    captured = found.baseline.record.having(conditions={"cuda_graph": Fact(value=True)})
    side = dataclasses.replace(found.baseline, record=captured)
    shown = str(document_from_comparisons([dataclasses.replace(on_gpu, baseline=side)]))
    assert "no CUDA graph without --cuda-graph on, and may differ" in " ".join(shown.split())
    assert found.comparison.verdicts[0].kind == "slower"
    # As if the slower side had been the faster one, whenever it ran alone.
    launches = tuple(
        each.having(alone_s=tuple(s / 1000 for s in each.alone_s))
        for each in second.record.launches
    )
    record = second.record.having(launches=launches)
    head = comparison_from_runs(first, dataclasses.replace(second, record=record)).verdicts[0]
    assert head.kind == "unclear"
    assert "alone" in head.reason


def test_a_store_that_cannot_be_used_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command opens it only when its workers have been started."""
    path = tmp_path / "newer"
    Store(path)
    with contextlib.closing(sqlite3.connect(path / "index.sqlite")) as index, index:
        index.execute("UPDATE trtbench_schema SET version = 99")
    monkeypatch.setattr(turns, "run_jobs", None)  # no worker may be started
    model = str(tiny_model(tmp_path / "m.onnx"))
    asked, config = CompareRequest(baseline=model, candidates=[model]), Config(store=str(path))
    with pytest.raises(StoreError, match="newer trtbench"):
        compare(asked, store=Store(path, at_once=False), config=config)


def test_a_side_that_breaks_is_named_and_recorded(
    tmp_path: Path, models: tuple[str, str], store: Store, config: Config
) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(Path(models[0]).read_bytes()[:100])
    with pytest.raises(InputError) as caught:
        compare(asked(models[0], str(broken), mode="lock-step"), store=store, config=config)
    assert "broken.onnx" in str(caught.value)


@pytest.mark.parametrize("mode", ["one-process", "lock-step"])
def test_idle_threads_leave_the_processor_to_the_other_side(
    mode: str, models: tuple[str, str], store: Store, config: Config
) -> None:
    sides = {"batch": 1, "threads": 2}
    wish = asked(models[0], models[1], mode=mode, launches=2, max_launches=2, **sides)
    found = compare(wish, store=store, config=config)[0]
    shares = hasattr(onnxruntime, "set_global_thread_pool_sizes")
    way = "shared" if mode == "one-process" and shares else "run"
    for run in (found.baseline, found.candidate):
        assert run.record.conditions["spinning"].value == way
        assert "spinning" not in run.record.spec.options, "what was asked for stays as it was"
        assert all(len(launch.alone_s) >= 1 for launch in run.record.launches)
    assert found.comparison.alone.launches == 2
    assert found.interference is not None


def test_slow_models_are_looked_at_after_four_launches(
    models: tuple[str, str], store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(turns, "FIRST_LAUNCHES_S", 0.0)
    spec = run_spec(BenchRequest(model=models[0], lock_clocks="base", **QUICK), config)
    told: list[str] = []
    execution = Execution(listen=lambda event: told.append(event.text))
    sides, request = Sides(baseline=spec, candidate=spec), PairFields(pairs=10)
    duet = Duet(sides, request, store=store, execution=execution)
    duet.measure(None)
    assert duet.launches == 4
    assert duet.next_launches == 2, "half as many again before the next look"
    duet.measure(6)
    assert duet.launches == 10, "what is asked for by number is measured"
    note = "the clock was not locked: the run is on the CPU"
    assert told.count(note) == 1
    assert all(note in run.record.notes for run in duet.store_runs())


def test_sides_that_are_launched_in_turn_tell_their_own_clocks(
    models: tuple[str, str], store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A B, B A: who was measured when is told by a clock that is 1 GHz higher with each look."""
    looks = itertools.count()

    class Source:
        def counters(self) -> Counters:
            return Counters(at_s=0.0, sm_clock_hz=1e9 * next(looks))

        def process_memory(self) -> None:
            return None

    @contextlib.contextmanager
    def watch_device(spec: RunSpec, device: str) -> Iterator[Watch]:
        yield Watch(index=0, source=Source())  # type: ignore[arg-type]

    monkeypatch.setattr(turns, "watch_device", watch_device)
    spec = run_spec(BenchRequest(model=models[0], duration=0.05, **QUICK), config)
    sides, request = Sides(baseline=spec, candidate=spec), PairFields(mode="launches")
    duet = Duet(sides, request, store=store, execution=Execution())
    duet.measure(2)
    duet.measure(1)
    seen = [
        [run.record.facts[f"sm_clock_{end}_hz"] for end in ("before", "after")]
        for run in duet.store_runs()
    ]
    assert seen == [[0.0, 9e9], [2e9, 11e9]]
