"""Run directories on shared storage: whole or not there, fetched once, two machines at once."""

import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import records
from writers import CLEAN, keep_many

from trtbench.core.errors import StoreError
from trtbench.core.run import FailedRun, Run
from trtbench.store import place as remote
from trtbench.store.store import Store
from waiting import wait_for

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: trtbench[remote]")


@pytest.fixture
def bucket() -> Iterator[str]:
    name = f"memory://{secrets.token_hex(4)}"
    yield name
    fsspec.filesystem("memory").rm(f"/{name.partition('://')[2]}", recursive=True)


def machine(folder: Path, bucket: str, name: str) -> Store:
    """A store as one machine sees it: its own folders, one index, one bucket."""
    return Store(f"sqlite:///{folder / 'team.sqlite'}", runs=bucket, home=folder / name)


def own_machine(folder: Path, bucket: str, name: str) -> Store:
    """The same with an index of its own, so that nothing but the bucket is shared."""
    return Store(folder / name, runs=bucket)


def test_what_one_machine_keeps_another_reads(tmp_path, bucket):
    here, there = own_machine(tmp_path, bucket, "a"), own_machine(tmp_path, bucket, "b")
    records.add(here, records.record("r1", tags=("x",)))
    records.add(here, records.failed("f1"))
    assert records.counts(there.reindex(lambda run: None)) == (2, 0, [])
    run = there.load("tag:x")
    assert run.path.is_relative_to(tmp_path / "b")
    assert list(run.times.host) == list(records.TIMES.host)
    assert isinstance(there.load("f1"), FailedRun)


def test_a_run_is_sent_with_its_record_last(tmp_path, bucket, monkeypatch):
    sent = []
    put = remote.RemoteRuns._put
    monkeypatch.setattr(
        remote.RemoteRuns, "_put", lambda self, a, b: (sent.append(b), put(self, a, b))
    )
    store = own_machine(tmp_path, bucket, "a")
    records.add(store, records.record("r1"))
    names = [path.rsplit("/", 1)[-1] for path in sent]
    assert sorted(names) == ["files.json", "run.json", "samples.npz"]
    assert names[-1] == "run.json"


def test_a_half_sent_run_is_not_seen_and_is_sent_again(tmp_path, bucket, monkeypatch):
    store, other = own_machine(tmp_path, bucket, "a"), own_machine(tmp_path, bucket, "b")
    put = remote.RemoteRuns._put

    def break_off(self, source, target):
        if target.endswith("run.json"):
            raise ConnectionError("the network is down")
        put(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(remote.RemoteRuns, "_put", break_off)
        with pytest.raises(StoreError, match="could not be sent") as caught:
            records.add(store, records.record("r1"))
    assert "network is down" in caught.value.facts["reason"]
    assert Path(caught.value.facts["kept in"]).joinpath("run.json").is_file()
    assert records.counts(other.reindex(lambda run: None)) == (0, 0, [])
    again = own_machine(tmp_path, bucket, "a")
    assert records.counts(again.reindex(lambda run: None)) == (1, 0, [])
    assert records.counts(other.reindex(lambda run: None)) == (1, 0, [])
    assert isinstance(other.load("r1"), Run)


def test_tags_scores_written_later_and_removal_reach_everybody(tmp_path, bucket):
    here, there = machine(tmp_path, bucket, "a"), machine(tmp_path, bucket, "b")
    folder = records.add(here, records.record("r1"))
    assert isinstance(there.load("r1"), Run)
    here.tag("r1", add=("release",))
    assert there.load("tag:release").record.tags == ("release",)
    there.tag("r1", add=("nightly",))
    tagged = here.resolve("r1")
    assert json.loads((tagged / "run.json").read_bytes())["tags"] == ["nightly", "release"]
    (folder / "scores.json").write_bytes(b'{"sha256": null, "scores": [], "data": "digits"}')
    (folder / "pictures").mkdir()
    (folder / "pictures" / "one.png").write_bytes(b"png")
    here.publish(folder)
    seen = there.resolve("r1")
    assert (seen / "scores.json").is_file()
    assert (seen / "pictures" / "one.png").read_bytes() == b"png"
    here.remove("r1")
    assert not list(there._remote.ids())
    assert there.index.find() == []
    records.add(here, records.record("r2"))
    there._remote.remove("r2")
    with pytest.raises(StoreError, match="gone"):
        there.load("r2")
    assert records.counts(there.reindex(lambda run: None)) == (0, 1, [])


@pytest.mark.process
def test_two_machines_write_at_once_and_one_is_killed(tmp_path, postgres_server):
    import postgres

    place, runs = postgres.new_database(postgres_server), f"file://{tmp_path}/shared"
    doomed = CLEAN.Process(target=keep_many, args=(place, tmp_path / "a", "doomed", 5000, runs))
    survivor = CLEAN.Process(target=keep_many, args=(place, tmp_path / "b", "survivor", 30, runs))
    reader = Store(place, home=tmp_path / "c", runs=runs)
    doomed.start()
    survivor.start()
    wait_for(lambda: len(reader.index.find(tag="doomed")) >= 5)
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.join()
    survivor.join()
    assert survivor.exitcode == 0
    assert len(reader.index.find(tag="survivor")) == 30
    for entry in reader.index.find():  # whoever is in the index is whole on disk
        assert isinstance(reader.load(entry.id), Run)
        assert "all" in entry.tags
    before = len(reader.index.find())
    found, dropped, problems = records.counts(reader.reindex(lambda run: None))
    assert (dropped, problems) == (0, [])
    assert before <= found <= before + 1  # the last one may have been complete and not indexed
    assert len(list((tmp_path / "shared" / "runs").iterdir())) <= found + 1


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """An S3 of our own on the loopback address."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: trtbench[remote]")
    server = pytest.importorskip("moto.server", reason="moto's server is not installed")
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "none")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "none")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("FSSPEC_S3_ENDPOINT_URL", f"http://{host}:{port}")
        fsspec.config.set_conf_env(fsspec.config.conf)
        fsspec.filesystem("s3").mkdir("team")
        yield "s3://team/bench"
    started.stop()
    fsspec.config.conf.pop("s3", None)


@pytest.mark.slow
def test_runs_in_a_bucket(tmp_path, s3):
    here, there = machine(tmp_path, s3, "a"), machine(tmp_path, s3, "b")
    records.add(here, records.record("r1"))
    assert isinstance(there.load("r1"), Run)
    there.tag("r1", add=("x",))
    assert here.load("tag:x").record.tags == ("x",)
    here.remove("r1")
    assert list(there._remote.ids()) == []
