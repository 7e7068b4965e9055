"""The list of runs on the screen."""

from __future__ import annotations

import pytest

from trtbench.cli.runs import _table
from trtbench.store.index import Entry


def entry(protocol: str, *, precision: str | None = None) -> Entry:
    return Entry(
        id=f"20261115-061858-{protocol}",
        kind="run",
        created="2026-11-15T06:18:58+00:00",
        model="resnet18.engine",
        runtime="tensorrt",
        path="runs/x",
        precision=precision,
        protocol=protocol,
        samples=100,
        median_s=1.634e-4,
    )


def test_medians_of_different_protocols_are_told_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _table([entry("serve", precision="half"), entry("coldl2")], limit=50)
    head, first, second = capsys.readouterr().out.splitlines()
    place = head.index("protocol")
    assert first[place:].startswith("serve")
    assert second[place:].startswith("coldl2")
    assert "half" in first
    _table([entry("serve")], limit=50)
    assert "protocol" not in capsys.readouterr().out
