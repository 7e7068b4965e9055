"""Every way a measurement can break, done for real on the command line."""

import json
import os
import resource
import signal
import time

import numpy as np
import psutil
import pytest

from disks import fill, small_disk
from trtbench.core.run import FailedRun, Run
from trtbench.store.directory import read_run, read_samples, run_directories
from waiting import wait_for

pytestmark = pytest.mark.process


def test_a_runtime_of_another_package_is_used_by_name(world):
    document = world.bench("work", "--json", "--tag", "plugin").json
    assert document["run"]["spec"]["runtime"] == "misbehaving"
    run = world.store.load("tag:plugin")
    assert np.median(run.times.host) == pytest.approx(1.5e-3)
    assert "all is well" in (run.path / "log.txt").read_text()


@pytest.mark.parametrize(
    ("behaviour", "flags", "signal_name", "status", "words"),
    [
        ("kill", (), "SIGKILL", None, "memory runs out"),
        ("segfault", (), "SIGSEGV", None, "crash in native code"),
        ("chatter", (), "SIGABRT", None, "native code gave up"),
        ("raise", (), None, 3, "a bug in the runtime"),
        ("exit", (), None, 3, "SystemExit"),
        ("vanish", (), None, 0, "without a result"),
        ("hang", (), "SIGTERM", None, "timed out after"),
        ("eat", ("--memory-limit", "3GiB"), None, 3, "out of memory"),
    ],
)
def test_a_failure_is_on_record(world, behaviour, flags, signal_name, status, words):
    good = world.store_run()
    bench = world.bench_out_of_time if behaviour == "hang" else world.bench
    result = bench(behaviour, *flags, "--tag", "bad")
    assert result.status == 1
    assert "error: the measurement did not finish" in result.err
    assert words in result.err
    failed = world.last_failure()
    assert (failed.stage, failed.signal, failed.exit_status) == ("measure", signal_name, status)
    assert words in failed.reason
    assert failed.tags == ("bad",)
    assert failed.spec.runtime == "misbehaving"
    assert failed.environment.host
    assert isinstance(world.store.load(good), Run), "what was measured before is lost"
    assert world.wait_until_quiet() == []
    assert world.unfinished() == []


def test_an_error_in_words_from_the_runtime_is_passed_on_and_not_recorded(world):
    told = "error: the model is not to my taste\n  taste   bitter\nfix: add sugar\n"
    assert world.bench("refuse", status=1).err.endswith(told)
    assert world.store.index.find() == []
    assert world.unfinished() == []


@pytest.mark.parametrize("behaviour", ["kill", "raise", "refuse"])
def test_a_failure_in_the_second_launch_keeps_the_first(world, behaviour):
    world.bench(behaviour, "--launches", "3", "--opt", "launch=1", status=1)
    failed = world.last_failure()
    assert failed.stage == "measure"
    folder = world.store.resolve(failed.id)
    kept = read_samples(folder)
    assert len(kept) == 40
    assert set(kept.launch) == {0}
    names = sorted(each.name for each in folder.iterdir())
    assert names == ["files.json", "log.txt", "run.json", "samples.npz"]


def test_out_of_memory_under_a_limit_of_the_shell(world):
    limit = 3 << 30

    def ulimit():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    for flags in ((), ("--memory-limit", "64GiB")):
        world.bench("eat", *flags, preexec_fn=ulimit, status=1)
        assert world.last_failure().reason == "out of memory"


# --- the parent ------------------------------------------------------------------------------


def measuring(world, *flags, behaviour="hang", **popen):
    started = world.start(*world.bench_arguments(behaviour, *flags), **popen)
    world.wait_until_at_work()
    assert len(world.workers()) == 2
    return started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_parent_leaves_no_orphan_and_nothing_half_done(world, number):
    result = measuring(world).send(number)
    assert result.status == 130
    assert "interrupted" in result.err
    assert "Traceback" not in result.err
    assert world.wait_until_quiet() == []
    assert world.unfinished() == []
    assert world.store.index.find() == []


def test_ctrl_c_in_a_terminal_reaches_the_whole_group_of_the_parent(world):
    started = measuring(world, start_new_session=True)
    os.killpg(started.pid, signal.SIGINT)
    assert "Traceback" not in started.result(130).err
    assert world.wait_until_quiet() == []


def test_an_interrupt_with_an_output_folder_leaves_nothing_there(world):
    result = measuring(world, "-o", world.folder / "results" / "mine").send(signal.SIGINT)
    assert result.status == 130
    assert list((world.folder / "results").iterdir()) == []


def test_an_interrupt_while_waiting_for_the_device(world):
    holder = measuring(world)
    waiting = world.start(*world.bench_arguments("work"))
    wait_for(lambda: waiting.said("waiting for"))
    assert waiting.send(signal.SIGINT).status == 130
    assert holder.send(signal.SIGINT).status == 130


def test_a_killed_parent_takes_the_child_along_and_the_next_use_clears_up(world):
    assert measuring(world).send(signal.SIGKILL).status == -signal.SIGKILL
    assert world.wait_until_quiet() == []
    assert len(world.unfinished()) == 1
    assert world.run("runs").status == 0
    assert world.unfinished() == []
    assert world.bench("work").status == 0, "the lock was not released"


def test_a_hangup_is_ignored_under_nohup(world):
    def nohup():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    started = measuring(world, "--duration", "500ms", behaviour="sleep", preexec_fn=nohup)
    assert started.send(signal.SIGHUP).status == 0


# --- two at once -----------------------------------------------------------------------------


def test_the_second_of_two_waits_and_says_for_whom(world):
    first = measuring(world, behaviour="wait")
    second = world.start(*world.bench_arguments("work", "--tag", "second"))
    told = f"waiting for misbehaving, held by process {first.pid} (trtbench bench"
    wait_for(lambda: second.said(told))
    world.model.with_suffix(".go").touch()
    assert first.result().status == 0
    assert second.result().status == 0
    assert len(world.store.index.find()) == 2
    assert world.store.load("last").record.tags == ("second",)


def test_no_wait_fails_at_once_while_another_device_is_free(world):
    first = measuring(world)
    refused = world.bench("work", "--no-wait", status=4)
    assert "is being measured by another process" in refused.err
    assert f"process {first.pid}" in refused.err
    assert "--no-wait" in refused.err
    assert world.bench("work", "--no-wait", "--device", "another").status == 0
    assert first.send(signal.SIGINT).status == 130
    assert world.bench("work", "--no-wait").status == 0


# --- a full disk -----------------------------------------------------------------------------


def test_a_disk_that_fills_up_while_measuring_leaves_the_record_of_it(world):
    with small_disk(world.folder / "store", "1m"):
        good = world.store_run()
        result = world.bench("fill", status=1)
        assert "Traceback (most recent call last)" not in result.err.split("error:")[1]
        assert "the disk is full" in result.err
        failed = world.last_failure()
        assert (failed.stage, failed.reason) == ("measure", "the disk is full")
        assert isinstance(world.store.load(good), Run)
        assert world.unfinished() == []
        assert world.bench("work").status == 0


@pytest.mark.parametrize("how", ["fill", "flood"])
@pytest.mark.parametrize("words", ["bench M", "compare M M", "gate M --metric median<5s"])
def test_a_disk_that_fills_up_in_a_later_launch_costs_no_result(world, words, how):
    words = [world.model if word == "M" else word for word in words.split()]
    late = ["-r", "misbehaving", "--opt", f"do={how}", "--opt", "launch=2", "--launches", "5"]
    with small_disk(world.folder / "store", "1m"):
        world.store_run()
        result = world.run(*words, *late, "--warmup", "10ms", "--json", status=1)
        found = json.loads(result.out)
        judged = (found.get("comparison") or {}).get("verdicts")
        assert found.get("run") or judged or found["results"]
        assert result.err.count("error: the disk is full") == 1
        kept = world.store.index.find(kind="run")[:-1]
        assert (len(kept) > 0) is ("launches so far are kept" in result.err) is (how == "fill")


def test_a_disk_that_is_full_from_the_start(world):
    with small_disk(world.folder / "store", "1m") as disk:
        good = world.store_run()
        fill(disk)
        result = world.bench("work", status=1)
        assert "error: the disk is full" in result.err
        assert "Traceback" not in result.err
        (disk / "filler").unlink()
        assert isinstance(world.store.load(good), Run)
        assert world.unfinished() == []


def test_whatever_room_is_left_no_half_run_is_seen(world):
    """The disk fills up at another step each time: job, log, samples, record, derived files."""
    with small_disk(world.folder / "store", "1m") as disk:
        world.store_run()
        filler = disk / "filler"
        statuses = []
        for pages in (1, 4, 7, 11):
            before = {folder.name for folder in run_directories(world.store.runs)}
            fill(disk)
            os.truncate(filler, filler.stat().st_size - 4096 * pages)
            result = world.bench("work")
            filler.unlink()
            statuses.append(result.status)
            assert "Traceback" not in result.err
            assert result.status == 0 or "full" in result.err
            assert world.unfinished() == []
            after = {folder.name for folder in run_directories(world.store.runs)}
            assert before <= after
            for name in after:
                assert isinstance(read_run(world.store.runs / name), Run | FailedRun)
        assert set(statuses) <= {0, 1}
        assert 1 in statuses


def test_a_full_output_folder_is_recorded_in_the_store(world):
    with small_disk(world.folder / "out", "256k") as disk:
        assert "the disk is full" in world.bench("fill", "-o", disk / "mine", status=1).err
        failed = world.last_failure()
        assert failed.reason == "the disk is full"
        assert world.store.resolve(failed.id) == disk / "mine"
        fill(disk)
        again = world.bench("work", "-o", disk / "other", status=1)
        assert "error: the disk is full" in again.err
        assert "Traceback" not in again.err


# --- asleep ----------------------------------------------------------------------------------


def test_the_parent_sleeps_while_the_child_measures(world):
    started = measuring(world, behaviour="toil")
    parent = psutil.Process(started.pid)
    (child,) = parent.children()
    before, began = (processor_s(parent), processor_s(child)), time.monotonic()
    wait_for(lambda: processor_s(child) - before[1] >= 0.5 and time.monotonic() - began >= 2.0)
    used, passed = processor_s(parent) - before[0], time.monotonic() - began
    started.send(signal.SIGINT)
    assert used <= 0.02 * passed, f"the parent used {used:.3f} s of {passed:.3f} s"


def processor_s(process):
    times = process.cpu_times()
    return times.user + times.system
