"""Tasks and nodes of a real Ray cluster that are lost under a run, and files that go in pieces."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import runs

from trtbench.errors import JobError
from trtbench.executors import ExecutorSettings, Request
from trtbench.executors.ray import RayExecutor
from trtbench.workflows.measure.luggage import Luggage
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


def kill_task() -> None:
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "ray::a run to be lost" in " ".join(each.cmdline()):
                each.kill()


def test_what_is_lost_under_a_run_is_said(nodes, tmp_path, monkeypatch):
    """The task hangs, or is killed, on a node that goes on: the run has failed. Then it is lost."""
    monkeypatch.setattr("trtbench.executors.ray._CHUNK", 100)
    monkeypatch.setattr("trtbench.executors.ray.GRACE_S", 0.0)
    monkeypatch.setattr("trtbench.executors.ray.RETRIES", 0)
    nodes.add("a")
    executor = RayExecutor(ExecutorSettings(address=nodes.cluster.address))
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})
    begun = tmp_path / "begun"

    def failure(lose: Callable[[], None] | None = None, limit_s: float | None = None) -> JobError:
        """Have a run fail by what is done once it has begun, or by its limit."""
        begun.unlink(missing_ok=True)
        luggage = Luggage()
        sent = luggage.spec(spec)
        request = Request(
            id="r", title="a run to be lost", spec=sent, bags=luggage.bags, limit_s=limit_s
        )
        losing = threading.Thread(target=lambda: lose and (wait_for(begun.is_file), lose()))
        losing.start()
        with pytest.raises(JobError) as caught:
            executor.run(request, folder=tmp_path / "run", tell=lambda text: None)
        losing.join()
        return caught.value

    killed = failure(kill_task)
    assert killed.message == "Ray could not carry the run out"
    assert killed.facts["where"].endswith(")")
    assert killed.facts["reason"]
    hung = failure(limit_s=0.01)
    assert (hung.message, hung.facts["limit"]) == ("no end of the run in time", "0.01 s")
    (pieces,) = executor._contents.values()
    assert len(pieces) > 1
    (kept,) = (tmp_path / "a" / "cache" / "blobs").iterdir()
    assert kept.read_bytes() == Path(spec.model.path).read_bytes()
    lost = failure(lambda: nodes.kill("a"))
    assert "lost under this run" in lost.message
    assert not (tmp_path / "run").exists()
    executor.close()
