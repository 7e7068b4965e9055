"""Help fits the narrowest terminal people use; an empty answer is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from trtbench.cli import trtbench as group

WIDTH = 80


VERBS = ["", *sorted(group.list_commands(None))]  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_80_columns(verb: str) -> None:
    result = CliRunner().invoke(group, [*verb.split(), "--help"], env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0, result.output
    wide = [line for line in result.output.splitlines() if len(line) > WIDTH]
    assert wide == []


def test_an_empty_list_of_what_is_trusted_says_so(tmp_path: Path) -> None:
    where = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    result = CliRunner().invoke(group, ["trust"], env=where)
    assert result.exit_code == 0
    assert "nothing" in result.stderr
