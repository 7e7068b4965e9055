"""Metadata documents in TREx's layout, without what its parsers lose."""

from __future__ import annotations

import json

import logs
from trtbench.domain.codec import json_from_value
from trtbench.trtexec.log import log_from_text
from trtbench.trtexec.metadata import build_metadata_from_log, profile_metadata_from_log

(RUN,) = log_from_text(logs.log_10(), where="x.log")


def test_build_sections_are_whole() -> None:
    document = build_metadata_from_log(RUN)
    assert list(document)[:3] == ["model_options", "build_options", "device_information"]
    build = document["build_options"]
    assert build["Memory Pools"] == "workspace: 64 MiB, dlaSRAM: default"
    assert build["Input build shape"] == ["a=1x3+2x3+4x3", "b:0=1+2+4"]
    assert document["device_information"]["Device 0"] == '"Test GPU" UUID: GPU-0:1:2'
    assert document["build_facts"]["engine_bytes"] == int(12.5 * 2**20)
    assert document["trtexec"]["version"] == "10.3.0"


def test_performance_summary_is_positional_and_labelled() -> None:
    document = profile_metadata_from_log(RUN)
    assert document["performance_summary"]["Latency"] == [0.7, 0.9, 0.8, 0.81, 0.81, 0.9]
    assert document["performance_labels"]["Latency"] == [
        "min",
        "max",
        "mean",
        "median",
        "percentile(50%)",
        "percentile(99.9%)",
    ]
    assert document["performance_summary"]["Throughput"] == 1234.5
    assert document["performance_summary"]["Total Host Walltime"] == 3.5


def test_device_numbers_lose_no_text() -> None:
    document = profile_metadata_from_log(RUN)
    assert document["device_information"]["Memory Bus Width"] == 384.0
    printed = document["device_information_printed"]
    assert printed["Memory Bus Width"] == "384 bits (ECC disabled)"


def test_documents_are_json() -> None:
    for document in (build_metadata_from_log(RUN), profile_metadata_from_log(RUN)):
        assert json.loads(json_from_value(document)) == document


def test_a_run_without_a_summary_has_none() -> None:
    (run,) = log_from_text(logs.banner("RUNNING", version="8601"), where="x")
    assert "performance_summary" not in profile_metadata_from_log(run)
