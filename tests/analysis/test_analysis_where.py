"""Conditions on sweeps: what they mean, what is unknown, and what is refused."""

import pytest

from trtbench.analysis.sweep import pareto_front, quantities
from trtbench.core.conditions import condition_from_text, holds, limits_of, unknown_names
from trtbench.core.errors import UsageError
from trtbench.core.metrics import kinds

NAMES = ("p99", "p99.9", "top1", "items", "size", "precision", "batch")


def met(text: str, baseline: dict[str, object] | None = None, **row: object) -> bool | None:
    values = {name.replace("_", "."): value for name, value in row.items()}
    return holds(condition_from_text(text, names=NAMES), values, baseline=baseline)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "row", "outcome"),
    [
        ("p99<5ms", {"p99": 0.004}, True),
        ("p99 < 5 ms", {"p99": 0.006}, False),
        ("p99<5ms", {"p99": None}, None),
        ("p99<5ms and items>100/s", {"p99": 0.006}, False),  # decided by what is known
        ("p99<5ms or items>100/s", {"p99": 0.006}, None),
        ("not p99<5ms", {"p99": 0.006}, True),
        ("not p99<5ms", {}, None),
        ("p99.9<=1ms", {"p99_9": 0.001}, True),
        ("size<20MB", {"size": 19e6}, True),
        ("size<20MiB", {"size": 20.5e6}, True),
        ("precision=='int8' or precision = \"fp16\"", {"precision": "fp16"}, True),
        ("precision!='int8'", {"precision": "int8"}, False),
        ("(p99+1ms)*2<=10ms", {"p99": 0.004}, True),
        ("10ms-p99-p99>=2ms", {"p99": 0.004}, True),
        ("items/batch>2", {"items": 10.0, "batch": 4}, True),
        ("items/batch>2", {"items": 10.0, "batch": 0}, None),
        ("-1<batch", {"batch": 0}, True),
        ("top1>=99%", {"top1": 0.992}, True),
        ("p99>0", {"p99": 0.1}, True),
        ("p99<5ms or p99>1s and batch==7", {"p99": 0.001, "batch": 1}, True),  # and binds tighter
    ],
)
def test_conditions_mean_what_they_say(text: str, row: dict[str, object], outcome: bool | None):
    assert met(text, **row) is outcome


def test_the_baseline_is_the_same_quantity_of_another_row() -> None:
    assert met("top1>=baseline-0.5%", {"top1": 0.700}, top1=0.696) is True
    assert met("top1>=baseline-0.5%", {"top1": 0.700}, top1=0.694) is False
    assert met("baseline*0.9>p99", {"p99": 0.01}, p99=0.008) is True
    assert met(
        "items>2*baseline.items and p99<=baseline.p99", {"items": 1, "p99": 1}, items=3, p99=1
    )
    assert met("top1>=baseline", None, top1=70.0) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p9<5ms", "did you mean p99"), ("p99<5", "5ms"), ("0.5>=p99", "no unit"),
        ("p99", "comparison"), ("p99<", "missing"), ("p99<5ms and", "missing"),
        ("p99<5ms)", "superfluous"), ("(p99<5ms", "bracket"), ("p99 <5 parsecs", "is not a unit"),
        ("__import__('os').system('true')", "is not valid"), ("exec>1", "no quantity called"),
        ("p99<5ms; top1>3", "is not valid"), ("precision==fp16", "in quotes"),
        ("baseline<baseline", "one quantity"), ("", "missing"), ("(" * 200 + "p99<1", "too long"),
        ("median<5%", "a time, but 5% is not"), ("median<=baseline+10%", "write baseline*1.1"),
        ("p99<baseline+5", "write 5ms"), ("p99<10MB", "a time, but 10MB is not"),
        ("size<10", "write 10MiB"), ("size<10ms", "is a size, but"),
        ("top1>=70ms", "is a share, but"), ("mAP>=30", "add the %"),
        ("batch>5%", "is a count, but"), ("throughput>5ms", "is a rate, but"),
        ("p99<2*5", "has no unit"), ("p99<baseline+2*5", "has no unit"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_and_a_wrong_unit_say_why(text: str, said: str) -> None:
    names = [*NAMES, "median", "throughput", "mAP"]
    with pytest.raises(UsageError) as caught:
        condition_from_text(text, names=names, kinds=kinds(names))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("top1>=baseline-0.5", "top1>=baseline-0.5%"),
        ("top1 >= baseline.top1 - .5 and p99<2", "top1 >= baseline.top1 - .5% and p99<2"),
        ("(0.5<baseline.top1-top1)", "(0.5%<baseline.top1-top1)"),
        ("top1-baseline.top1>=-0.5", "top1-baseline.top1>=-0.5%"),
        ("top1>=baseline-1-0.5%", "top1>=baseline-1%-0.5%"),
        ("top1>=baseline*0.99", "top1>=baseline*0.99"),
        ("p99<=baseline+1", "p99<=baseline+1"),
    ],
)
def test_between_two_shares_a_bare_number_is_points_of_per_cent(text: str, meant: str) -> None:
    bare, written = (condition_from_text(each, names=NAMES, kinds={"top1": "share"})
                     for each in (text, meant))  # fmt: skip
    assert bare == written
    assert bare.text == meant
    if "0.5%" in meant and "1%" not in meant and "<" not in meant:
        assert holds(bare, {"top1": 0.696}, baseline={"top1": 0.7}) is True
        assert holds(bare, {"top1": 0.694}, baseline={"top1": 0.7}) is False


@pytest.mark.parametrize(
    "text",
    ["median<=baseline*110%", "size<=baseline+1MiB", "items>5", "items>5/s", "batch>=4", "std<0",
     "p99<2*5ms", "workspace<5", "workspace<5MiB"],
)  # fmt: skip
def test_what_needs_no_other_unit_is_read(text: str) -> None:
    names = [*quantities(()), "workspace"]
    assert condition_from_text(text, names=names, kinds=kinds(names))


def test_what_a_condition_lacks_is_named() -> None:
    condition = condition_from_text("p99<5ms and top1>=baseline-0.5%", names=NAMES)
    assert unknown_names(condition, {"p99": 0.001, "top1": None}) == ["top1"]


def test_the_front_is_what_nothing_beats() -> None:
    points = [
        {"time": 1.0, "right": 70.0}, {"time": 2.0, "right": 80.0}, {"time": 2.5, "right": 75.0},
        {"time": 1.0, "right": 70.0}, {"time": 0.5, "right": None},
    ]  # fmt: skip
    assert pareto_front(points, better={"time": "low", "right": "high"}) == [0, 1, 3]
    assert pareto_front(points, better={"time": "low"}) == [4]
    assert pareto_front([], better={"time": "low"}) == []


@pytest.mark.parametrize(
    "text", ["PCK@0.2>=90%", "PCK@0.2 >= baseline-1", "p99<5ms and PCK@0.2>90%"]
)
def test_a_name_may_hold_its_parameter(text: str) -> None:
    condition = condition_from_text(text, names=("PCK@0.2", "p99"), kinds={"PCK@0.2": "share"})
    row = {"PCK@0.2": 0.95, "p99": 0.001}
    assert holds(condition, row, baseline=row) is True
    assert holds(condition, {**row, "PCK@0.2": 0.5}, baseline=row) is False


def test_one_language_for_limits_and_chains() -> None:
    condition = condition_from_text("1ms≤p99<5ms and 20>items", names=NAMES)
    assert limits_of(condition) == [("p99", ">=", 0.001), ("p99", "<", 0.005), ("items", "<", 20.0)]
    assert limits_of(condition_from_text("p99<5ms or items>3", names=NAMES)) is None
    assert limits_of(condition_from_text("p99<baseline", names=NAMES)) is None
    assert met("1ms<p99<5ms", p99=0.004) is True
    assert met("1ms<p99<5ms", p99=0.006) is False
