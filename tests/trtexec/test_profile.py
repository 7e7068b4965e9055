from __future__ import annotations

import json
from pathlib import Path

import pytest

import samples
from made_artefacts import BATCHES, VERSIONS
from trtbench.domain.codec import json_from_value
from trtbench.domain.samples import LayerProfile
from trtbench.errors import ParseError
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.profile import profile_from_json, profiles_from_json


def read(text: str) -> LayerProfile:
    return profile_from_json(text.encode(), where="profile.json")


@pytest.mark.parametrize("medians", [True, False])
def test_layers_keep_order_repeated_names_and_zero_times(medians: bool) -> None:
    profile = read(samples.profile_text(samples.LAYERS, medians=medians))
    assert profile.count == 100
    assert [layer.name for layer in profile.layers] == [name for name, _ in samples.LAYERS]
    assert [layer.total_s for layer in profile.layers] == pytest.approx([0.0425, 0.0075, 0, 0.05])
    assert [layer.average_s for layer in profile.layers] == pytest.approx(
        [0.000425, 0.000075, 0, 0.0005]
    )
    assert [layer.share for layer in profile.layers] == pytest.approx([0.425, 0.075, 0, 0.5])
    assert (profile.layers[0].median_s is not None) == medians


@pytest.mark.parametrize(
    "name",
    [
        'say "hi"',
        "back\\slash",
        'ends with "',
        "C:\\new\\table",
        'a", b',
        "{x} [y]: z, \\",
        '"',
        "",
    ],
)
def test_names_that_were_not_escaped_are_taken_as_they_stand(name: str) -> None:
    profile = read(samples.profile_text([(name, 1.0), ("next", 2.0), (name, 3.0)]))
    assert [layer.name for layer in profile.layers] == [name, "next", name]
    assert [layer.total_s for layer in profile.layers] == pytest.approx([0.001, 0.002, 0.003])


def test_a_profile_of_nothing_has_no_shares() -> None:
    profile = read(samples.profile_text([("a", 0.0), ("b", 0.0)], count=1))
    assert profile.count == 1
    assert [layer.share for layer in profile.layers] == [None, None]


def test_json_that_was_written_anew_is_read_as_json() -> None:
    records = json.loads(samples.profile_text(samples.LAYERS))
    records[1]["name"] = 'quoted "name"\\'
    for indent in (None, 2):
        profile = read(json.dumps(records, indent=indent))
        assert profile.layers[0].name == 'quoted "name"\\'
        assert profile.count == 100
    assert len(read(json.dumps(json.dumps(records))).layers) == 4


def test_half_characters_do_not_hinder_storing() -> None:
    text = r'[{"count": 2}, {"name": "a\ud800b\udc00\ud83d\ude00", "timeMs": 3.0}]'
    profile = read(text)
    assert profile.layers[0].name == "a\ufffdb\ufffd\U0001f600"
    assert json_from_value(profile)


def test_several_profiles_in_one_file() -> None:
    text = samples.profile_text(samples.LAYERS, count=10) + samples.profile_text([("a", 1.0)])
    profiles = profiles_from_json(text, where="profile.json")
    assert [(each.count, len(each.layers)) for each in profiles] == [(10, 4), (100, 1)]
    assert profile_from_json(text, where="profile.json", array=1) == profiles[1]
    with pytest.raises(ParseError, match="holds 2 profiles"):
        read(text)


def test_a_profilers_series_gives_minimum_median_and_maximum() -> None:
    profile = read(json.dumps({"conv": [1.0, 3.0, 2.0], "fc": [0.5, 0.5, 0.5]}))
    conv = profile.layers[0]
    assert profile.count == 3
    assert (conv.total_s, conv.average_s, conv.median_s) == pytest.approx((0.006, 0.002, 0.002))
    assert (conv.min_s, conv.max_s) == pytest.approx((0.001, 0.003))
    assert conv.share == pytest.approx(0.8)


@pytest.mark.parametrize("nest", ["layers", "profile", "anything"])
def test_nestings_of_other_tools(nest: str) -> None:
    records = [
        {"name": "conv", "avg_time_ms": 1.5, "min_time_ms": 1.0, "max_time_ms": 2.0},
        {"name": "fc", "avg_time_ms": 0.5},
    ]
    profile = read(json.dumps({"meta": {"gpu": "x"}, "data": {nest: records, "count": 4}}))
    assert profile.count == 4
    assert [layer.average_s for layer in profile.layers] == pytest.approx([0.0015, 0.0005])
    assert profile.layers[0].total_s == pytest.approx(0.006)
    assert [layer.share for layer in profile.layers] == pytest.approx([0.75, 0.25])


def test_a_layer_that_was_cut_out_of_the_middle_is_not_swallowed() -> None:
    text = samples.profile_text([("a", 1.0), ("b", 2.0), ("c", 3.0)])
    broken = text.replace('"b", "timeMs" : 2, "averageMs" : 0.02,', '"b",')
    with pytest.raises(ParseError) as caught:
        read(broken)
    assert "line 4" in caught.value.facts["place"]


# Whole folders


def test_every_profile_of_a_folder_is_read(artefacts: Path) -> None:
    paths = list(samples.artefact_files(artefacts, "profile"))
    assert len(paths) >= 5
    for path in paths:
        for profile in profiles_from_json(path.read_bytes(), where=path.name):
            assert profile.count
            shares = [layer.share or 0 for layer in profile.layers]
            assert sum(shares) == pytest.approx(1, abs=1e-4), path.name
            for layer in profile.layers:
                assert layer.average_s * profile.count == pytest.approx(layer.total_s, rel=1e-4)


def test_profiles_of_several_runs_in_one_file(made: Path) -> None:
    path = made / "old" / "profile_net.json"
    profiles = profiles_from_json(path.read_bytes(), where=path.name)
    assert [profile.count for profile in profiles] == [100 * each for each in BATCHES]
    assert {len(profile.layers) for profile in profiles} == {len(samples.LAYERS)}


@pytest.mark.parametrize("version", VERSIONS)
def test_names_of_profile_and_graph_agree(made: Path, version: str) -> None:
    folder = made / f"trtexec-{version}"
    profile = profile_from_json((folder / "loaded.profile.json").read_bytes(), where="profile")
    graph = graph_from_json((folder / "loaded.layerinfo.json").read_bytes(), where="layers")
    assert [layer.name for layer in profile.layers] == [layer.name for layer in graph.layers]
