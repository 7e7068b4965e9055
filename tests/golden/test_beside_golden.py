"""Files of other machines, read as they were read before: a hash of what is printed for each.

None of their text is kept here, nor their names: a failure tells which file it is.
"""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from golden import EXPECTED, SENTENCES, WRITE, digest, environment_of
from waiting import printed

pytestmark = pytest.mark.xdist_group("golden")

LARGEST = 300_000
MANY = """
import contextlib, io, json, runpy, sys
told = []
for words in json.load(sys.stdin):
    sys.argv, out, status = ["trtbench", *words], io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            runpy.run_module("trtbench", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code or 0
    told.append([status, out.getvalue()])
json.dump(told, sys.stdout)
"""


def test_real_files_are_read_as_before(beside: Path, tmp_path: Path) -> None:
    beside = beside.resolve()
    files = [
        str(path.relative_to(beside))
        for path in sorted(beside.rglob("*"))
        if path.is_file() and path.stat().st_size <= LARGEST and "_textindex" not in path.parts
    ]
    folders = [path.name for path in sorted(beside.iterdir()) if path.is_dir()]
    commands = [["import", each, "--dry-run", "--json"] for each in [*files, *folders]]
    commands += [["inspect", each, "--json"] for each in files]
    commands += [["profile", each, "--json"] for each in files if each.endswith("profile.json")]
    said = printed(
        [sys.executable, "-c", MANY], cwd=beside, env=environment_of(tmp_path),
        input=json.dumps(commands),
    )  # fmt: skip
    found, named = {}, {}
    for (verb, path, *_), (status, text) in zip(commands, json.loads(said), strict=True):
        value = json.loads(text) if text.strip() else None
        runs = len(value.get("runs", [])) if verb == "import" and isinstance(value, dict) else "-"
        key = f"{verb} {hashlib.sha256(path.encode()).hexdigest()[:10]}"
        values = digest(value, here=str(beside), without=SENTENCES)
        found[key] = f"{key} status {status} runs {runs} {values}"
        named[key] = path
    kept = EXPECTED / "beside.txt"
    if WRITE:
        kept.write_text("\n".join(found.values()) + "\n")
    before = {" ".join(line.split()[:2]): line for line in kept.read_text().splitlines()}
    changed = [f"{named[key]}: {before.get(key)} -> {line}" for key, line in found.items()
               if before.get(key) != line]  # fmt: skip
    assert not changed, "\n".join(changed)
