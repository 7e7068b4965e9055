"""Execute the commands of pages, and write what they print back, or say where it differs.

Notebooks (``.ipynb``) are executed too, where nbclient is installed.

``python tools/run_docs.py docs/tutorial.md`` runs every ``sh`` block of the page in order, in one
empty folder, and fails when a command fails or prints something else than the ``text`` block below
it; numbers, names of runs and what hangs on a machine's mood are not compared. ``--write`` puts
what was printed into the page (``make docs-outputs``). Comments before a block steer it:

    <!-- file: NAME -->       the block is written to NAME
    <!-- not run: REASON -->  the block is for another machine
    <!-- status: 3 -->        the exit status that is expected
    <!-- lines: 5 -->         so many lines of what is printed are shown
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FENCE = re.compile(
    r"(?P<notes>(?:^<!-- [^\n]* -->\n)*)"
    r"^(?P<fence>`{3,})(?P<kind>\w*)\n(?P<text>.*?)^(?P=fence)$\n?",
    re.MULTILINE | re.DOTALL,
)
NOTE = re.compile(r"<!-- (file|not run|status|lines): (.*?) -->")
LIMIT_S = 600

MOODS = re.compile(
    r"^(warnings?|notes?|findings|spread|startup|repeats|interleaving|alone|detectable) "
    r"|^of means "
    r"|^(machine|versions|built on) "
    r"|^ +(→|fix:)|^(host|throughput|p\d+)\b.*: the interval|^\w+ H\d\d"
    r"|^(?!unclear ).*launches would decide it"
)
"""Lines that are there or not as the machine feels, or that name it."""
WORDS = (
    (r"^\S+ (is .*as fast as|and \S+ cannot be told apart yet).*", "ANSWER"),
    (r"^PASS \(.*\)$", "PASS"),
    (r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN"),
    (r"(sha256|commit) [0-9a-f]+", r"\1 HASH"),
    (r"needs (n=)?\d[\d ]*(samples)?", "#"),
    (r"\d+ (pass|fail|unclear)\b", "# OUTCOME"),
    (r"^(pass|fail|unclear) +(slowdown\S*) .*", r"OUTCOME \2"),
    (r"\b(faster|slower|same|unclear)\b", "VERDICT"),
    (r"^(host|gpu|throughput|p\d+) +VERDICT .*", r"\1 VERDICT"),
    (r"\b(pass|fail)\b", "OUTCOME"),
    (r"[+−-]?\d[\d .,]*(e[+-]?\d+)? ?(%|x\b|([mµ]?s|min|[KMG]iB|k|M|G|dB)\b)?", "#"),
    (r"[#–]([ ,/]*[#–])*", "#"),
    (r"\s+", " "),
)
"""What is not compared within a line, and what stands for it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: its text, where that stands in the page, and what the notes say of it."""

    kind: str
    text: str
    begin: int
    end: int
    notes: Mapping[str, str]

    @property
    def runs(self) -> bool:
        return self.kind == "sh" and "not run" not in self.notes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """A block that was run, what it printed, and the block that says what it prints."""

    block: Block
    printed: str
    shown: Block | None


class PageError(Exception):
    """A command of a page failed, or printed something else."""


def blocks(page: str) -> Iterator[Block]:
    """Find the fenced blocks of a page in their order."""
    for found in FENCE.finditer(page):
        yield Block(
            kind=found["kind"],
            text=found["text"],
            begin=found.start("text"),
            end=found.end("text"),
            notes=dict(NOTE.findall(found["notes"])),
        )


def run_page(page: str, folder: Path, *, env: Mapping[str, str] | None = None) -> list[Ran]:
    """Run a page in a folder: write its files, execute its commands, stop at the first failure."""
    ran = []
    here = list(blocks(page))
    for block, below in zip(here, [*here, None][1:], strict=True):
        if "file" in block.notes:
            path = folder / block.notes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.runs:
            near = below is not None and not page[block.end + 3 : below.begin - 7].strip("`\n ")
            shown = below if below and near and below.kind == "text" else None
            ran.append(Ran(block=block, printed=_run(block, folder, env or {}), shown=shown))
    return ran


def _run(block: Block, folder: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block.text],
        cwd=folder,
        env={**_environment(folder), **env},
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )
    expected = int(block.notes.get("status", 0))
    if done.returncode != expected:
        raise PageError(
            f"status {done.returncode} instead of {expected} of:\n{block.text}"
            f"{done.stdout}{done.stderr}"
        )
    lines = done.stdout.replace(f"{folder}/", "").rstrip("\n").splitlines()
    most = int(block.notes.get("lines", len(lines)))
    return "\n".join([*lines[:most], *(["..."] if len(lines) > most else [])]) + "\n"


def _environment(folder: Path) -> dict[str, str]:
    """Make what commands see the same everywhere: this trtbench, its own store and settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRTBENCH_", "GITHUB_"))}
    own = folder / ".own"
    (own / "locks").mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "XDG_DATA_HOME": str(own / "data"),
        "XDG_CONFIG_HOME": str(own / "config"),
        "TRTBENCH_LOCKS": str(own / "locks"),
        "NO_COLOR": "1",
    }


def stable(printed: str) -> list[str]:
    """Reduce what was printed to what every machine prints."""
    lines = []
    for line in printed.splitlines():
        if line.strip() and not MOODS.search(line):
            for pattern, word in WORDS:
                line = re.sub(pattern, word, line)
            lines.append(line.strip())
    return lines


def differences(ran: list[Ran]) -> list[str]:
    """List the lines that a page shows and that no longer come, and those it does not show."""
    found = []
    for each in ran:
        if each.shown is None:
            continue
        old, new = stable(each.shown.text), stable(each.printed)
        gone = [f"  - {line}" for line in old if line not in new]
        come = [f"  + {line}" for line in new if line not in old]
        if gone or come:
            found.append("\n".join([each.block.text.strip(), *gone, *come]))
    return found


def with_outputs(page: str, ran: list[Ran]) -> str:
    """Put what was printed into the page."""
    for each in reversed(ran):
        if each.shown is not None:
            page = page[: each.shown.begin] + each.printed + page[each.shown.end :]
    return page


def _page_changes(path: Path, folder: Path, *, write: bool) -> list[str]:
    page = path.read_text("utf-8")
    ran = run_page(page, folder)
    if write:
        path.write_text(with_outputs(page, ran), "utf-8")
    return [] if write else differences(ran)


def run_notebook(path: Path, folder: Path) -> Any:
    """Execute every cell of a notebook in a folder; stop at the first that fails."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    os.environ.update(_environment(folder))
    nbclient.NotebookClient(
        notebook,
        timeout=LIMIT_S,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    for cell in notebook.cells:
        # What is said while it works is for whoever waits.
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    return notebook


def kinds_of_outputs(notebook: Any) -> list[list[str]]:
    """List what the cells of a notebook give: text, pages, pictures."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [
        [kind for each in cell.outputs for kind in sorted(each.get("data", {"stream": ""}))]
        for cell in cells
    ]


def _notebook_changes(path: Path, folder: Path, *, write: bool) -> list[str]:
    import nbformat

    made = run_notebook(path, folder)
    if write:
        nbformat.write(made, path)
        return []
    old, new = (kinds_of_outputs(each) for each in (nbformat.read(path, as_version=4), made))
    return [
        f"  cell {n}: {a} became {b}"
        for n, (a, b) in enumerate(zip(old, new, strict=True))
        if a != b
    ]


def main() -> None:
    """Run the pages that are named; with ``--write``, put their outputs into them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="put what is printed into the pages")
    link = "a link in the folder, such as an environment that the page wants made"
    parser.add_argument("--link", action="append", default=[], metavar="NAME=PATH", help=link)
    asked = parser.parse_args()
    failed = False
    for path in asked.pages:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for link in asked.link:
                link_name, _, target = link.partition("=")
                (folder / link_name).symlink_to(Path(target).absolute())
            work = _notebook_changes if path.suffix == ".ipynb" else _page_changes
            try:
                changes = work(path, folder, write=asked.write)
            except PageError as problem:
                sys.exit(f"{path}: {problem}")
        failed = failed or bool(changes)
        print(f"{path}: {'differs' if changes else 'ran'}", *changes, sep="\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
