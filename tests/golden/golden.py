"""Runs commands as a user does and writes down what they did, less what differs between machines.

A command that only reads is compared exactly: what it prints at 80 columns, its exit status, and
the files it writes. Of a command that measures only the structure is compared: labels, headings of
tables, keys and types of JSON, names of files and the headings in them.
"""

import csv
import difflib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).resolve().parent / "expected"
LINE = 100
WRITE = os.environ.get("TRTBENCH_GOLDEN") == "write"


@dataclass(frozen=True)
class Case:
    """One command: ``words`` follow ``trtbench``; ``measured`` compares the structure alone."""

    name: str
    words: tuple[str, ...]
    measured: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def is_json(self) -> bool:
        return "--json" in self.words


def observe(case: Case, *, folder: Path, environment: dict[str, str]) -> str:
    """Run a command in a folder; gives the text that is kept of it."""
    before = _stamps(folder)
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", *case.words], cwd=folder, stdin=subprocess.DEVNULL,
        env={**environment, "COLUMNS": "240" if case.measured else "80", **dict(case.settings)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    here = str(folder)
    shown = " ".join(f"'{each}'" if " " in each else each for each in case.words)
    parts = [f"$ trtbench {mask(shown, here=here)}", f"status {done.returncode}"]
    stdout = _json(done.stdout, here=here, exact=not case.measured) if case.is_json else None
    for name, text in (("stdout", stdout or _text(case, done.stdout, here)),
                       ("stderr", _text(case, done.stderr, here, progress=True))):  # fmt: skip
        if text.strip():
            parts += [f"--- {name}", text.rstrip("\n")]
    after = _stamps(folder)
    written = [path for path, stamp in after.items() if before.get(path) != stamp]
    gone = {mask(path, here=here).rpartition("/")[2] for path in before if path not in after}
    if written or gone:
        parts += [
            "--- files",
            *_files(written, folder, exact=not case.measured),
            *sorted(set(gone)),
        ]
    return "\n".join(parts) + "\n"


def compare(name: str, found: str) -> None:
    """Hold a text against the one that is kept, or keep it."""
    path = EXPECTED / f"{name}.txt"
    if WRITE:
        path.write_text(found, encoding="utf-8")
        return
    kept = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = difflib.unified_diff(
        kept.splitlines(), found.splitlines(), "kept", "found", n=1, lineterm=""
    )
    why = "what is meant has a line in CHANGELOG.md, and is kept with TRTBENCH_GOLDEN=write"
    if changed := "\n".join(lines):
        pytest.fail(f"{path.name}: {why}\n{changed}", pytrace=False)


# --- what differs between machines and days ---------------------------------------------------

MASKS = (
    (re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{2,6}\b"), "YYYYMMDD-HHMMSS-xxxxxx"),
    (re.compile(r"\b20\d{6}-\d{6}\b"), "YYYYMMDD-HHMMSS"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "YYYY-MM-DD"),
    (re.compile(r"\b\d\d/\d\d/20\d\d-\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b(trtbench|numpy|scipy|onnx|onnxruntime|nvidia-ml-py) \d+(\.\d+)+\S*\b"),
     r"\1 <version>"),
    (re.compile(r'\btime="[^"]*"'), 'time=""'),
    (re.compile(r"(/worst/\S+-random_)\d+"), r"\1N"),
    (re.compile(r" \(Did you mean[^)]*\)"), ""),
    (re.compile(r"(?<![.\w])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{12,64}\b"), "<sha256>"),
)  # fmt: skip


def mask(text: str, *, here: str) -> str:
    """Take out folders, dates, ids, hashes and versions."""
    text = text.replace(sys.executable, "<python>").replace(here, "<here>")
    text = text.replace(str(ROOT), "<repository>")
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text


UNIT = r"(?:\s?(?:[nµm]?s|min|h|%|dB|[KMG]iB|[kMG]|bytes|/s|[nµm]?J)(?![\w]))?"
NUMBER = re.compile(
    rf"(?<![\w.])[+\-−±]?\d+(?:[  ]\d{{3}})*(?:\.\d+)?(?:e[+−-]?\d+)?{UNIT}(?![\w])"
)
VERDICTS = re.compile(r"\b(faster|slower|unclear|similar|same)\b|(?<=\s)–(?=\s|$)|[▁▂▃▄▅▆▇█]+"
                      r"|\bneeds \d+ samples")  # fmt: skip
NOISE = re.compile(
    r"^(warnings?|notes?|findings|spread|repeats|unsteady|interleaving|alone|machine|versions"
    r"|startup|detectable|repeatability|disturbed|jitter|p9[059])\b"
    r"|^(GPU time|host time|latency) +\d.* to |^  → "
    r"|^(latency|host|gpu|enqueue|h2d|d2h|throughput|p\d[\d.]*)(, \S+)*: |^warnings: "
)
ANSWER = re.compile(
    r"^(\S+) (?:(?:is .*as fast as|takes .* the time of) (\S+?),? .*"
    r"|and (\S+) cannot be told apart yet: .*)$"
)
PROGRESS = re.compile(
    r"^(import|site|check|compare|gate|eval|localize|sweep|bench|lottery|build|profile|explain"
    r"|[\w.-]+\.(onnx|engine)(, \w+)*|build \d+): (?!scores added)|^\[\d+/\d+\]|^GPU time"
)
"""Lines that come as time goes by, and may come or not."""


def _text(case: Case, text: str, here: str, *, progress: bool = False) -> str:
    lines = [line.rstrip() for line in mask(text, here=here).splitlines()]
    if progress:
        lines = [line for line in lines if not PROGRESS.search(line)]
    return "\n".join(_loosen(lines) if case.measured else lines)


def _loosen(lines: Iterable[str]) -> list[str]:
    """Leave words alone: numbers, verdicts and findings are those of one measurement."""
    kept: list[str] = []
    for line in lines:
        if NOISE.search(line):
            continue
        line = ANSWER.sub(lambda m: f"{m[1]} against {m[2] or m[3]}: an answer", line)
        line = re.sub(
            r"\bneeds (n=)?\d+( samples)?", " # ", VERDICTS.sub(" # ", line.replace(" ★", ""))
        )
        line = re.sub(r"^(pass|fail)  +(\S+).*", r"\1 \2", NUMBER.sub("#", line))
        line = re.sub(r"#: # (to|and) #", "#", re.sub(r"\s+", " ", line).strip())
        if line and (not kept or kept[-1] != line):
            kept.append(line)
    nodes = sorted({line for line in kept if line.startswith("/")})  # in an order of measured sizes
    return [line for line in kept if line not in nodes] + nodes


# --- values -----------------------------------------------------------------------------------

OF_MACHINES = {
    "environment", "versions", "findings", "conditions", "facts", "machine", "interval",
    "median_interval",
}  # fmt: skip
"""Keys below which everything is of one machine or one measurement."""


def _json(text: str, *, here: str, exact: bool) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    lines = shape(value, here=here, exact=exact)
    if exact:
        lines.append(f"values {digest(value, here=here)}")
    return "\n".join(lines)


def shape(value: Any, *, here: str, exact: bool) -> list[str]:
    """A line for every object: its keys and their types; whether a number is known may vary."""
    found: dict[str, dict[str, set[str]]] = {}
    _collect(value, "", found, here)
    lines = []
    for path, keys in found.items():
        words = []
        for key, kinds in sorted(keys.items()):
            loose = not exact and (kinds <= {"null", "number"} or key in OF_MACHINES)
            words.append(f"{key} {'?' if loose else '/'.join(sorted(kinds))}")
        lines += folded(f"{path or '.'}: ", words)
    return lines


def folded(head: str, words: list[str]) -> list[str]:
    """A head and words after it, in lines that are not too long."""
    lines = [head]
    for word in words:
        if len(lines[-1]) + len(word) > LINE:
            lines.append("    ")
        lines[-1] += word + ", "
    return [line.rstrip(", ") for line in lines]


def _collect(value: Any, path: str, found: dict[str, dict[str, set[str]]], here: str) -> None:
    if isinstance(value, list):
        for each in value:
            _collect(each, f"{path}[]", found, here)
    elif isinstance(value, dict):
        keys = found.setdefault(path, {})
        for key, each in value.items():
            name = mask(key, here=here)
            keys.setdefault(name, set()).update(_kinds(each))
            if key not in OF_MACHINES:
                _collect(each, f"{path}.{name}" if path else name, found, here)


def _kinds(value: Any) -> set[str]:
    names = {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}
    if isinstance(value, list):
        inner = {kind for each in value for kind in _kinds(each)}
        return {f"[{'/'.join(sorted(inner))}]"}
    return {"{}" if isinstance(value, dict) else names[type(value)]}


SENTENCES = {"message", "remedy", "because", "notes", "warnings", "reason"}
"""Keys whose values are sentences: what they say is held by the small artefacts' goldens."""


def digest(value: Any, *, here: str, without: Collection[str] = ()) -> str:
    """A short hash of a value: numbers to six digits, machines, days and some keys left out."""
    left_out = {"environment", "versions", "size_bytes", "modified", *without}
    rounded = _rounded(value, left_out)
    text = mask(json.dumps(rounded, ensure_ascii=False, sort_keys=True), here=here)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _rounded(value: Any, left_out: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each, left_out) for key, each in value.items()
                if key not in left_out}  # fmt: skip
    if isinstance(value, list):
        return [_rounded(each, left_out) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# --- files ------------------------------------------------------------------------------------

IGNORED = re.compile(
    r"(^|/)(index\.sqlite.*|locks|\.lock.*|trtexec\.pid|__pycache__|cache|log\.txt)(/|$)"
)


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not IGNORED.search(name):
            found[name] = (path.stat().st_mtime_ns, path.stat().st_size)
    return found


def _files(written: Iterable[str], folder: Path, *, exact: bool) -> list[str]:
    """A line for each name: the head of the file, or how many there are and what they hold."""
    alike: dict[str, list[str]] = {}
    for path in written:
        alike.setdefault(mask(path, here=str(folder)), []).append(path)
    lines, runs = [], {}
    for name, paths in sorted(alike.items()):
        heads = [_head(folder / path, here=str(folder), exact=exact) for path in paths]
        if name.startswith("store/runs/"):
            values = f" {digest(sorted(heads), here='')}" if exact and any(heads) else ""
            runs[name.rpartition("/")[2]] = f" ({len(paths)}{values})"
        elif len(paths) == 1:
            lines += folded(f"{name}: ", heads[0])
        else:
            lines.append(f"{name} ({len(paths)})")
    lines += folded("store/runs/: ", [name + told for name, told in runs.items()]) if runs else []
    return [line.rstrip(", :") for line in lines]


def _head(path: Path, *, here: str, exact: bool) -> list[str]:
    """What a reader of a file relies on: columns, keys, headings, names of arrays."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return sorted(each.removesuffix(".npy") for each in archive.namelist())
    if path.suffix not in {".csv", ".json", ".jsonl", ".md", ".xml", ".tex", ".html"}:
        return []
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        found = [mask(each, here=here) for each in next(csv.reader(text.splitlines()), [])]
    elif path.suffix == ".json":
        found = sorted(mask(each, here=here) for each in _top(json.loads(text)))
        return [*found, *([f"values {digest(json.loads(text), here=here)}"] if exact else [])]
    elif path.suffix == ".jsonl":
        found = sorted({key for line in text.splitlines() for key in json.loads(line)})
    elif path.suffix == ".md":
        rows = text.splitlines()
        heads = [
            row for row, under in itertools.pairwise(rows) if under[:3] in ("|--", "| -", "|:-")
        ]
        found = _loosen(mask(each, here=here) for each in [r for r in rows if r[:1] == "#"] + heads)
        return list(dict.fromkeys(found))
    elif path.suffix == ".xml":
        found = sorted(set(re.findall(r"<(\w+)", text)))
    elif path.suffix == ".html":
        found = re.findall(r"<h[123][^>]*>([^<]*)<", text)
        return list(dict.fromkeys(_loosen(mask(each, here=here) for each in found)))
    else:
        return list(dict.fromkeys(re.findall(r"\\(?:sub)*section\*?\{([^}]*)", text)))
    text = re.sub(r"\b\d+\.\d{6,}(e[+-]?\d+)?\b", lambda number: f"{float(number[0]):.6g}", text)
    text = mask(text, here=here)
    return [*found, *([f"values {digest(text, here=here)}"] if exact else [])]


def _top(value: Any) -> list[str]:
    if isinstance(value, list):
        return sorted({f"[].{key}" for each in value if isinstance(each, dict) for key in each})
    return list(value) if isinstance(value, dict) else []


def environment_of(folder: Path, **settings: str) -> dict[str, str]:
    """Where a command keeps its things, and the search path with what stands in for trtexec."""
    paths = [str(folder / "bin"), os.environ["PATH"]]
    inherited = {key: value for key, value in os.environ.items() if key != "TRTBENCH_GOLDEN"}
    return {
        **inherited, "PATH": os.pathsep.join(paths), "TRTBENCH_STORE": str(folder / "store"),
        "TRTBENCH_LOCKS": str(folder / "locks"), "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"), "TZ": "UTC", "NO_COLOR": "1", **settings,
    }  # fmt: skip
