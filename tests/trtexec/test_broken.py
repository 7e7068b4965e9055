"""Damaged files give a ParseError that names file, place and what was expected; nothing else."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samples
from trtbench.core.errors import ParseError
from trtbench.trtexec.sniff import kind_of

FILES = samples.every_file()
READERS = samples.readers()
QUICK = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read_or_refuse(kind: str, data: bytes) -> bool:
    """Read; a refusal must say where and what. Any other exception fails the test."""
    problem: ParseError | None = None
    try:
        READERS[kind](data)
    except ParseError as found:
        problem = found
    if problem is None:
        return True
    assert problem.facts["file"] == "f"
    assert problem.facts["place"]
    assert problem.facts["expected"]
    return False


@pytest.mark.parametrize("name", FILES)
def test_cut_off_at_every_byte(name: str) -> None:
    data, kind = FILES[name], name.split()[0]
    assert read_or_refuse(kind, data)
    whole = len(data.rstrip(b"\n\0")) if kind not in ("plan", "calibration") else 0
    twice = len(data) // 2 if name == "times twice" else -1
    for length in range(len(data)):
        accepted = read_or_refuse(kind, data[:length])
        if kind not in ("plan", "calibration") and length < whole:
            assert accepted == (length in (twice, twice - 1)), length


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["Layers", "Name", "name", "values", "times", "timeMs", "latencyMs", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("kind", READERS)
@QUICK
@given(value=JSON)
def test_json_of_any_other_shape(kind: str, value: object) -> None:
    read_or_refuse(kind, json.dumps(value).encode())


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", FILES)
def test_the_wrong_file(kind: str, name: str) -> None:
    if name.split()[0] != kind:
        assert not read_or_refuse(kind, FILES[name])


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \n",
        b"\0" * 1000,
        bytes(range(256)) * 10,
        b"[" * 12_500,
        b'{"a":' * 12_500,
        b'[{"latencyMs":' + b"[" * 6_250,
        b'[{"latencyMs":' * 3_125,
        b'"' * 625,
        b'{"Layers": [' + b"{" * 3_125,
        b'[ { "name" : "' + b'"' * 6_250,
        b'[ { "name" : "a", "timeMs" : ' * 188,
        b'[{"latencyMs": ' + b"9" * 6_250 + b"}]",
        b'[{"name": "y", "values": [' + b"9" * 10_000 + b"]}]",
        b"\\" * 3_125,
        b"[" + b" " * 18_750,
        b"[" + b"{}," * 1_875,
        b'"\\ud800"',
        b'"[1, 2"',
        b"TRT-1-" + b"a" * 6_250,
        b"\xff\xfe\x00\xd8",
    ],
    ids=lambda data: repr(data[:16]) + f"x{len(data)}",
)
def test_hostile_content_is_refused_in_step_with_its_length(kind: str, data: bytes) -> None:
    def seconds(content: bytes) -> float:
        begin = time.process_time()
        read_or_refuse(kind, content)
        kind_of(content, name="f")
        return time.process_time() - begin

    short, long = seconds(data), seconds(data * 16)
    assert long < 80 * max(short, 5e-3)  # the square of the length would be 256 times


def test_a_row_without_an_end_does_not_fill_the_memory() -> None:
    row = b'[{"latencyMs" : 1, "x" : "' + b"y" * 4_000_000
    with pytest.raises(ParseError) as caught:
        READERS["times"](row)
    assert "within" in caught.value.facts["expected"] or "}" in caught.value.facts["expected"]


def test_the_place_of_a_bad_row_is_its_byte() -> None:
    data = samples.times_file("8.5", rows=10)
    at = data.index(b'"computeMs" : 2.005')
    with pytest.raises(ParseError) as caught:
        READERS["times"](data[:at] + b"!" + data[at:])
    place = int(caught.value.facts["place"].split()[1].strip(","))
    assert data.rindex(b"{", 0, at) <= place <= at
    assert caught.value.facts["rows read"] == "5"
