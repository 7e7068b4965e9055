"""Help fits the narrowest terminal people use, prose and examples alike."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from trtbench.cli import trtbench as group

WIDTH = 80


@pytest.mark.parametrize("verb", sorted(group.list_commands(None)))  # type: ignore[arg-type]
def test_help_fits_80_columns(verb: str) -> None:
    result = CliRunner().invoke(group, [verb, "--help"], env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0, result.output
    wide = [line for line in result.output.splitlines() if len(line) > WIDTH]
    assert wide == []
