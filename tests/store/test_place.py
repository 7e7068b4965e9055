"""What users write for a store: folders, URLs, and what is none."""

import pytest

from trtbench.core.errors import StoreError, UsageError
from trtbench.core.safety import mask
from trtbench.requests.settings import load_config, open_store
from trtbench.store.place import place_from_text
from trtbench.store.store import Store


def test_a_folder_in_three_spellings_and_a_file_of_any_name_with_its_runs_beside_it(tmp_path):
    wanted = (f"sqlite:///{tmp_path / 'index.sqlite'}", tmp_path)
    for text in (str(tmp_path), f"file://{tmp_path}", f"sqlite:///{tmp_path}"):
        place = place_from_text(text)
        assert (place.url, place.root) == wanted
        assert (place.runs, place.remote, place.is_shared) == (tmp_path / "runs", None, False)
    place = place_from_text(f"sqlite:///{tmp_path}/team.db")
    assert (place.url, place.root) == (f"sqlite:///{tmp_path}/team.db", tmp_path)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_database_keeps_runs_at_home_or_where_it_is_said(tmp_path, scheme):
    place = place_from_text(f"{scheme}://me@db/bench", home=tmp_path)
    assert place.url == "postgresql+psycopg://me@db/bench"
    assert (place.root, place.is_shared) == (tmp_path, True)
    place = place_from_text(f"{scheme}://me@db/bench", home=tmp_path, runs="s3://bucket/x/")
    assert place.remote == "s3://bucket/x"
    assert place.root.is_relative_to(tmp_path / "remote")
    with pytest.raises(UsageError, match="folder for run directories"):
        place_from_text(f"{scheme}://me@db/bench")


@pytest.mark.parametrize("text", ["s3://bucket/x", "mysql://me@db/x", "sqlite://", "sqlite:///"])
def test_what_is_no_place(text):
    with pytest.raises(UsageError):
        place_from_text(text)


def test_a_password_is_never_shown(tmp_path):
    assert mask("postgresql://me:secret@db:1/x") == "postgresql://me:***@db:1/x"
    assert mask("s3://bucket/x") == "s3://bucket/x"
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as caught:
        Store("postgresql://me:secret@127.0.0.1:1/x", home=tmp_path)
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_settings_hold_urls_and_a_place_for_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("TRTBENCH_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trtbench.toml").write_text(
        "store = 'postgresql://me:pw@db/x'\nruns = 's3://team/x'"
    )
    config = load_config()
    assert (config.store, config.runs) == ("postgresql://me:pw@db/x", "s3://team/x")
    assert config.settings()["store"] == "postgresql://me:***@db/x"
    assert load_config(store="elsewhere").runs is None  # it was said of the other store
    (tmp_path / "trtbench.toml").write_text("store = 'here'\nruns = 'shared'")
    store = open_store(load_config())
    assert store.runs == tmp_path / "shared" / "runs"
    assert store.index.url == f"sqlite:///{tmp_path}/here/index.sqlite"
    monkeypatch.setenv("TRTBENCH_RUNS", str(tmp_path / "more"))
    assert open_store(load_config()).runs == tmp_path / "more" / "runs"
