"""Logs of strangers: what stands in them is read as numbers and words, kept without secrets."""

import gzip
import json
import lzma
import random
import time
from pathlib import Path

import pytest
from commands import typed as run

import logs
from trtbench.core.safety import mask
from trtbench.trtexec.log import read_log

SECRET = "hunter2-planted-xyz"
ESCAPE = "\x1b]0;pwned\x07\x1b[31m\u202e"
PAGE = "<img src=x onerror=alert(1)>"
COMMAND = f"trtexec --onnx=https://bob:{SECRET}@host/n.onnx --token={SECRET} --api-key {SECRET}"


def hostile_logs() -> dict[str, bytes]:
    """Write logs with secrets, escapes and pages wherever a log has words."""
    announced = logs.log_10().replace("trtexec --onnx=net.onnx --fp16", COMMAND)
    typed = f"## {ESCAPE}{PAGE} postgres://u:{SECRET}@h/db\n$ HF_TOKEN={SECRET} {COMMAND}\n"
    summary = logs.text(logs.lines("=== Performance summary ===", "Throughput: 5 qps",
                                   "Latency: min = 1 ms, max = 2 ms, median = 1.5 ms"))  # fmt: skip
    error = logs.lines(f"{ESCAPE}{PAGE} cannot reach s3://k:{SECRET}@bucket", level="E")
    failed = logs.text([logs.banner("RUNNING", command=COMMAND), *error,
                        logs.banner("FAILED", command=COMMAND)])  # fmt: skip
    # Where only a part of each line is read.
    plain = [f"{line} " for line in logs.log_10().replace("net.onnx", "parts.onnx").splitlines()]
    link = f"\x1b]8;;https://host/?token={SECRET}\x07"
    records = (json.dumps({"log": line, "token": SECRET}) for line in plain)
    return {
        "records.log": "\n".join(records).encode(),
        "links.log": "\n".join(link + line for line in plain).encode(),
        "prefixes.log": "\n".join(f"token={SECRET} {line}" for line in plain).encode(),
        "announced.log": announced.encode(),
        "wide.log": announced.encode("utf-16"),
        "packed.log.gz": gzip.compress(announced.replace("=net", "=packed").encode()),
        "typed.md": (typed + summary).encode(),
        "failed.log": failed.encode(),
        "two.txt": (announced + typed + summary).encode(),
    }


def test_secrets_of_whoever_made_a_log_go_no_further(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for name, content in hostile_logs().items():
        (files / name).write_bytes(content)
    store = ["--store", str(tmp_path / "store")]
    said = [run("import", str(files), *store)]
    said += [run("inspect", str(path)) for path in files.iterdir()]
    runs = [path.name for path in (tmp_path / "store/runs").iterdir()]
    assert len(runs) == 10
    said.append(run("report", *runs, "-o", str(tmp_path / "report"), *store))
    said.append(run("site", "-o", str(tmp_path / "site"), *store))
    said += [run("runs", "show", each, *store) for each in runs]
    for each in said:
        assert SECRET not in each.stdout + each.stderr
        assert "\x1b" not in each.stdout + each.stderr
        assert "\u202e" not in each.stdout + each.stderr
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and files not in path.parents]
    assert len(kept) > 40
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert not [path for path in kept if SECRET.encode("utf-16-le") in path.read_bytes()]


LONG = 250_000


@pytest.mark.parametrize(
    "piece", ["a", "a-", "://a:b", "x://a:", "eyJaaaaaaaaaa-", "token=", "token ", "-", "sk-", "'"]
)
def test_masking_takes_time_in_step_with_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece)) + "://token"
        begin = time.process_time()
        mask(text)
        return time.process_time() - begin

    seconds(1000)
    assert seconds(LONG) < 60 * max(seconds(LONG // 10), 0.01)


def test_damaged_packed_files_end(tmp_path: Path) -> None:
    traps = []
    whole = logs.log_10().encode()
    for seed in range(60):
        chance = random.Random(seed)
        packed = bytearray(chance.choice((gzip.compress, lzma.compress))(whole))
        for _ in range(chance.randint(1, 5)):
            packed[chance.randrange(len(packed))] = chance.randrange(256)
        traps.append(bytes(packed))
    for number, trap in enumerate(traps):
        read_log(trap + b"\nThroughput: 5 qps\n", where=f"trap {number}")
