import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import samples
from made_artefacts import BATCHES
from trtbench.trtexec import times as _rows
from trtbench.trtexec.sniff import kind_of
from trtbench.trtexec.times import TimesArray, read_times, times_from_arrays
from waiting import printed


def read(data: bytes | str, **options: float) -> tuple[TimesArray, ...]:
    data = data.encode() if isinstance(data, str) else data
    return read_times(data, where="times.json", **options)


def one(data: bytes | str, **options: float) -> TimesArray:
    (array,) = read(data, **options)
    return array


@pytest.mark.parametrize("variant", samples.STAMPED)
def test_every_schema_is_named_and_its_phases_are_found(variant: str) -> None:
    array = one(samples.times_file(variant))
    times = times_from_arrays([array])
    assert array.variant == variant
    dropped = 0 if variant == "8.5" else 20  # rows at 2.5, 12.5 ... 192.5 ms
    assert array.warmup_rows == dropped
    assert len(times) == 40 - dropped
    assert times.gpu == pytest.approx([(2 + i / 1000) / 1e3 for i in range(dropped, 40)])
    assert times.h2d == pytest.approx(0.5e-3)
    assert times.d2h == pytest.approx(0.125e-3)
    assert times.host is None
    assert (times.end_to_end is not None) == (variant in ("7.0", "7.1", "8.0"))
    assert times.start[0] == 0
    assert np.diff(times.start) == pytest.approx(0.01, abs=2e-5)
    if variant == "7.0":
        assert times.enqueue is None
    else:
        assert times.enqueue == pytest.approx(samples.ENQUEUE_MS / 1e3, abs=1e-6)


def test_a_7_1_file_with_the_pairs_in_place_is_not_swapped() -> None:
    rows = samples.times_rows("7.1")
    for row in rows:
        for end in ("start", "end"):
            row[f"{end}EnqMs"], row[f"{end}InMs"] = row[f"{end}InMs"], row[f"{end}EnqMs"]
    assert not one(samples.times_text(rows)).swapped


def test_warmup_is_as_stated_or_assumed_and_ends_at_the_first_measured_row() -> None:
    data = samples.times_file("8.4")
    assert one(data, warmup_ms=50).warmup_rows == 5
    assert one(data, warmup_ms=0).warmup_rows == 0
    assert one(data, warmup_ms=0).variant == "8.5"
    array = one(samples.times_file("8.4", rows=5))  # all within the assumed one
    assert (len(array), array.warmup_rows, array.warmup_ms) == (5, 0, None)
    rows = samples.times_rows("8.4", rows=30)
    late = rows.pop(2)
    assert one(samples.times_text([*rows, late])).warmup_rows == 19


def test_arrays_in_one_file_are_launches() -> None:
    data = samples.times_file("8.5", rows=3) + samples.times_file("8.4", rows=40)
    arrays = read(data)
    times = times_from_arrays(arrays)
    assert [len(array) for array in arrays] == [3, 20]
    assert [array.variant for array in arrays] == ["8.5", "8.4"]
    assert times.launch.tolist() == [0] * 3 + [1] * 20


def test_transfers_that_were_off_are_absent() -> None:
    array = one(samples.times_file("8.5", transfers=False))
    times = times_from_arrays([array])
    assert times.h2d is None
    assert times.d2h is None
    assert not array.columns["h2dMs"].any()
    assert times.latency is not None
    assert times.latency == pytest.approx(times.gpu)


@pytest.mark.parametrize("word", ["inf", "nan", "-nan", "-inf", "NaN", "Infinity", "1e999"])
def test_values_that_are_no_numbers_are_kept_and_no_samples(word: str) -> None:
    data = samples.times_file("8.5").replace(
        b'"computeMs" : 2.003', f'"computeMs" : {word}'.encode()
    )
    array = one(data)
    assert not math.isfinite(array.columns["computeMs"][3])
    assert len(array) == 40
    assert len(times_from_arrays([array])) == 39


def test_unknown_keys_and_nested_values_do_no_harm() -> None:
    rows = [{**row, "streamId": 3.0} for row in samples.times_rows("8.5", first_ms=300)]
    assert set(one(samples.times_text(rows)).columns["streamId"]) == {3.0}
    nested = [{**row, "note": {"a": [1, {"b": "}]"}]}} for row in rows]
    assert len(one(json.dumps(nested))) == 40


def test_a_key_that_some_rows_lack_is_nan_there() -> None:
    rows = samples.times_rows("8.5", first_ms=300, rows=4)
    del rows[2]["startEnqMs"]
    lacking = np.isnan(one(samples.times_text(rows)).columns["startEnqMs"])
    assert lacking.tolist() == [False, False, True, False]


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_any_formatting_gives_the_same_columns(indent: int | None) -> None:
    rows = samples.times_rows("8.5", first_ms=300)
    expected = {key: [row[key] for row in rows] for key in rows[0]}
    found = one(json.dumps(rows, indent=indent)).columns
    assert {key: column.tolist() for key, column in found.items()} == expected


def test_foreign_encodings() -> None:
    text = samples.times_file("8.4").decode()
    for data in (
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r\n").encode(),
    ):
        assert len(one(data)) == 20


@pytest.mark.parametrize("name", ["perIteration", "per_iteration", "iteration_times"])
def test_lists_of_columns_under_a_name(name: str) -> None:
    columns = {"latencyMs": [1.5, 2.5], "enqueue_ms": [0.1, 0.2], "gpu_compute_ms": [1, 2]}
    times = times_from_arrays(read(json.dumps({name: columns})))
    assert times.latency == pytest.approx([0.0015, 0.0025])
    assert times.enqueue == pytest.approx([0.0001, 0.0002])
    assert times.gpu == pytest.approx([0.001, 0.002])


@pytest.mark.parametrize(
    ("document", "has_unit"),
    [
        ([2.5, 1.5], False),
        (["2500 us", "1.5ms"], True),
        ({"runs": [2.5, 1.5]}, False),
        ({"shape": [1, 3], "runs": [{"latency": "2500.0us"}, {"latency": "0.0015 s"}]}, True),
        ([{"latency": "2500 microseconds"}, {"latency": "1.5 ms"}], True),
        ({"iterations": {"latency_us": ["2.5 ms", "1.5 ms"]}}, True),
        ({"perIteration": {"latency": ["2.5ms", "1500µs"]}}, True),
    ],
)
def test_times_as_other_tools_write_them(document: object, has_unit: bool) -> None:
    assert kind_of(json.dumps(document).encode(), name="net.times.json") == "times"
    array = one(json.dumps(document))
    assert times_from_arrays([array]).latency == pytest.approx([0.0025, 0.0015])
    if has_unit:
        text = json.dumps(document, ensure_ascii=False).encode()
        assert kind_of(text, name="x.json") == "times"
    else:
        assert array.without_unit
        assert kind_of(json.dumps(document).encode(), name="shape.json") == "unknown"


def test_enqueue_resolution_grows_with_the_run() -> None:
    early = one(samples.times_file("8.5", first_ms=201.0, rows=10))
    late = one(samples.times_file("8.5", first_ms=5000.123, rows=10))
    assert early.enqueue_resolution_s == pytest.approx(1e-6)
    assert late.enqueue_resolution_s == pytest.approx(1e-5)
    exact = json.dumps(samples.times_rows("8.5", first_ms=5000.1234567, rows=10))
    assert one(exact).enqueue_resolution_s is None
    assert one(samples.times_file("7.0")).enqueue_resolution_s is None


@given(
    values=st.lists(st.floats(allow_nan=False, width=32) | st.floats(0, 1e4), min_size=2),
    digits=st.sampled_from([".6g", ".3f", ".9g", ".17g", ".8f"]),
)
def test_any_printed_number_is_the_double_of_python(values: list[float], digits: str) -> None:
    printed = [format(value, digits) for value in values]
    expected = [float(number) for number in printed]
    assume(any(map(math.isfinite, expected)))  # else the file is refused
    rows = [f'{{ "latencyMs" : {number}, "x" : {number} }}' for number in printed]
    columns = one("[\n  " + "\n, ".join(rows) + "\n]\n").columns
    assert columns["latencyMs"].tolist() == columns["x"].tolist() == expected


def test_pieces_cut_anywhere_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = samples.times_file("8.5", rows=30) + samples.times_file("8.5", rows=20)
    whole = [array.columns for array in read(data)]
    for size in (1, 7, 64, 300, 1000):
        monkeypatch.setattr(_rows, "PIECE_BYTES", size)
        for array, columns in zip(read(data), whole, strict=True):
            assert all((array.columns[key] == columns[key]).all() for key in columns)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """60 MB here; benchmarks/import.py --big shows 200 MB."""
    path = tmp_path / "times.json"
    rows = samples.times_file("8.5", rows=5000)[2:-2]
    with path.open("wb") as file:
        file.write(b"[\n" + rows)
        while file.tell() < 60e6:
            file.write(rows.replace(b"  {", b", {", 1))
        file.write(b"]\n")
    script = (
        "import sys; from trtbench.trtexec.times import read_times\n"
        "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "before = peak(); read_times(open(sys.argv[1], 'rb'), where='f')\n"
        "print((peak() - before) * 1024)"
    )
    assert int(printed([sys.executable, "-c", script, str(path)])) < 0.55 * path.stat().st_size


# Whole folders


def whole_files(folder: Path) -> list[Path]:
    found = [p for p in samples.artefact_files(folder, "times") if "broken" not in p.name]
    assert len(found) >= 11
    return found


def test_every_times_file_of_a_folder_is_read(artefacts: Path) -> None:
    for path in whole_files(artefacts):
        with path.open("rb") as file:
            times = times_from_arrays(read_times(file, where=path.name))
        assert times.gpu is not None
        assert (times.gpu > 0).all()
        assert times.latency is not None
        if times.h2d is not None and times.d2h is not None:
            assert times.latency == pytest.approx(times.h2d + times.gpu + times.d2h, rel=1e-3)


def test_times_of_a_folder_agree_with_a_json_reader(artefacts: Path) -> None:
    for path in whole_files(artefacts):
        if "N2_None" in path.name or path.name == "times_net.json":
            continue  # several arrays: not JSON as a whole
        rows = json.loads(path.read_bytes())
        columns = one(path.read_bytes(), warmup_ms=0).columns
        for key in rows[0]:
            assert (columns[key] == [row[key] for row in rows]).all(), (path.name, key)


def test_several_exports_of_7_1_in_one_file(made: Path) -> None:
    arrays = read((made / "old" / "times_net.json").read_bytes())
    assert len(arrays) == len(BATCHES)
    assert all(array.swapped for array in arrays)
    for array in arrays:
        enqueue = times_from_arrays([array]).enqueue
        assert enqueue is not None
        assert np.median(enqueue) * 1e3 == pytest.approx(samples.ENQUEUE_MS, rel=1e-3)
