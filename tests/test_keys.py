"""Rules read only facts that something writes, and every field of the evidence is filled."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import msgspec

from trtbench.analysis.findings import evidence as evidence_module
from trtbench.analysis.findings.evidence import Evidence

SOURCE = Path(__file__).resolve().parents[1] / "src" / "trtbench"
RULES = sorted((SOURCE / "analysis" / "findings").glob("*.py"))
READ = re.compile(r"\.(?:fact|flag|text|condition)\(\"(\w+)\"\)")


def test_rules_read_only_what_something_writes() -> None:
    others = "".join(path.read_text() for path in SOURCE.rglob("*.py") if path not in RULES)
    for path in RULES:
        for name in READ.findall(path.read_text()):
            assert re.search(rf"[\"_]{name}\b|\b{name}=", others), f"nothing writes {name}"


def test_every_field_of_the_evidence_is_filled_in_src_and_read_by_a_rule() -> None:
    """A field that only tests fill is a rule that never fires."""
    source = {
        path: path.read_text()
        for path in SOURCE.rglob("*.py")
        if path not in RULES or path.name in ("evidence.py", "__init__.py")
    }
    rules = "".join(path.read_text() for path in RULES)
    for name in _names_of_evidence():
        told = re.compile(rf"\b{name}=")
        assert any(told.search(text) for text in source.values()), f"nobody fills {name}"
    for name in (each.name for each in fields(Evidence)):
        used = rf"\be\.{name}\b"
        assert re.search(used, rules) or name in ("segments", "times", "record"), name


def _names_of_evidence() -> set[str]:
    names = {each.name for each in fields(Evidence)}
    for value in vars(evidence_module).values():
        own = getattr(value, "__module__", "") == evidence_module.__name__
        if own and isinstance(value, type) and issubclass(value, msgspec.Struct):
            names |= {each.name for each in msgspec.structs.fields(value)}
    return names
