"""The documents of verbs, drawn as text and as Markdown."""

from __future__ import annotations

from made_runs import made_run

from trtbench.analysis.gate import evaluate, rule_from_text
from trtbench.analysis.summary import summary_from_run
from trtbench.report.documents.gate import document_from_gates
from trtbench.report.documents.run import HEADINGS
from trtbench.report.renderers.md import markdown
from trtbench.report.renderers.terminal import text
from trtbench.workflows.compare.gate import Gate


def test_a_gate_shows_every_rule_and_counts_them() -> None:
    run = made_run()
    rules = [rule_from_text(each) for each in ("median<2s", "median<1ns", "p99.9<2s")]
    results = evaluate(rules, summary=summary_from_run(run))
    document = document_from_gates(
        [Gate(name="tiny.onnx", results=tuple(results), open=False, candidate=run)]
    )
    written = markdown(document)
    assert "1 pass, 1 fail, 1 unclear" in written
    assert written.split("| Fact |")[0].count("\n|") == 5
    lines = text(document, width=80).splitlines()
    assert [line.split()[0] for line in lines if "median<" in line or "p99.9" in line] == [
        "pass", "FAIL", "unclear",
    ]  # fmt: skip


def test_a_screen_that_shows_p99_shows_p90() -> None:
    """The highest rank is left out first."""
    ranks = {each.key: each.rank for each in HEADINGS}
    assert ranks["p90_s"] < ranks["p99_s"] < ranks["std_s"] < ranks["p95_s"]
