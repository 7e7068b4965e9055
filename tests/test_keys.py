"""Rules read only facts that something writes, and every field of the evidence is filled."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "trtbench"
RULES = sorted((SOURCE / "analysis" / "findings").glob("*.py"))
READ = re.compile(r"\.(?:fact|flag|text|condition)\(\"(\w+)\"\)")


def test_rules_read_only_what_something_writes() -> None:
    others = "".join(path.read_text() for path in SOURCE.rglob("*.py") if path not in RULES)
    for path in RULES:
        for name in READ.findall(path.read_text()):
            assert re.search(rf"[\"_]{name}\b|\b{name}=", others), f"nothing writes {name}"
