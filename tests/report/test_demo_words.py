"""What the demo says of a machine that is busy with other things."""

from __future__ import annotations

from made_runs import WARNING, made_run

from trtbench.analysis.findings import RULES
from trtbench.report.documents.demo import CONTENDED, words_on_neighbours


def test_a_busy_machine_is_named_as_the_cause() -> None:
    busy = WARNING.having(code=CONTENDED)
    words = words_on_neighbours([made_run(id="a", findings=(busy,)), made_run(id="b")])
    assert words is not None
    assert "1 of 2 runs" in words


def test_a_quiet_machine_is_not_spoken_of() -> None:
    assert words_on_neighbours([made_run()]) is None


def test_the_finding_is_the_one_about_the_cpu() -> None:
    (rule,) = [rule for rule in RULES if rule.code == CONTENDED]
    assert "contended" in rule.title
