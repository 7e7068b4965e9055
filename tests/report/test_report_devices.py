"""Several devices in one report: the fastest under each bound, and what an item costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import made_run, made_times

from trtbench.domain.price import Price
from trtbench.domain.result import Gpu, Run
from trtbench.errors import UsageError
from trtbench.report.device_table import device_names
from trtbench.report.document import Table
from trtbench.report.labels import labels_from_runs
from trtbench.report.sections.devices import joules_per_item, make
from trtbench.workflows.request.keeping import ReportRequest
from trtbench.workflows.stored.report import _with_prices, prices_from_file


def run_on(cpu: str, base_s: float, *, batch: int, host: str = "box", **facts: float) -> Run:
    made = made_run(made_times(base_s=base_s), id=f"{cpu}-{host}-{batch}", batch=batch, host=host)
    environment = made.record.environment.having(cpu=cpu)
    record = made.record.having(environment=environment, facts=dict(facts))
    return Run(record=record, times=made.times)


def tables(section) -> dict[str, Table]:
    return {block.id: block for block in section.blocks if isinstance(block, Table)}


def test_one_device_has_nothing_to_be_compared_with():
    assert make([run_on("A", 1e-3, batch=1), run_on("A", 2e-3, batch=8)]) is None


def test_each_bound_has_the_fastest_run_that_meets_it():
    runs = [
        run_on("big", 1e-3, batch=1),
        run_on("big", 8e-3, batch=32),
        run_on("small", 6e-3, batch=1, energy_per_query_j=0.5),
        run_on("small", 60e-3, batch=32, energy_per_query_j=8.0),
    ]
    section = make(runs)
    assert section is not None
    found = tables(section)
    best = {row[1].shown: row for row in found["devices"].rows}
    assert "batch 32" in best["big"][3].shown
    assert best["small"][6].value == pytest.approx(8.0 / 32)
    assert best["big"][6].shown == "–"
    under = {row[2].value: row for row in found["devices_under"].rows}
    assert [heading.title for heading in found["devices_under"].headings][3:] == ["big", "small"]
    for bound, row in under.items():
        for cell, device in zip(row[3:], ("big", "small"), strict=True):
            if cell.value is None:
                continue
            assert "batch 32" not in cell.shown or bound > 8e-3, (bound, device)
    first = under[min(under)]
    assert first[3].value is not None
    assert first[4].shown == "–"
    assert "batch 32" in under[max(under)][4].shown


def test_a_million_items_cost_what_the_device_costs_meanwhile(tmp_path):
    (tmp_path / "prices.toml").write_text(
        '[big]\nper_hour = 3.6\ncurrency = "EUR"\n'
        '["bigger and better"]\nper_hour = 36\ncurrency = "EUR"\n'
    )
    prices = prices_from_file(tmp_path / "prices.toml")
    made = [run_on(name, 1e-3, batch=1) for name in ("The Big One", "small")]
    told = {"prices": prices, "latency_under_s": 0.5}
    section = make([replace(run, extra=told) for run in made])
    best = {row[1].shown: row for row in tables(section)["devices"].rows}
    rate = best["The Big One"][2].value
    cost = best["The Big One"][6]
    assert cost.value == pytest.approx(3.6 / 3600 / rate * 1e6)
    assert cost.shown.endswith("EUR")
    assert "energy" in tables(section)["devices"].caption  # nobody told it: no empty columns
    assert best["small"][6].shown == "–"  # nobody said: unknown, not free
    (under,) = tables(section)["devices_under"].rows
    assert under[2].value == 0.5
    assert "EUR per million" in under[3].shown
    unpriced = tables(make(made))["devices"]
    assert "cost_per_million" not in [heading.key for heading in unpriced.headings]


@pytest.mark.parametrize(
    "text",
    ["[big]\nper_hour = 1", "big = 3", "[big", "", "[big]\nper_hour = '3'\ncurrency = 'EUR'"]
    + ["[big]\nper_hour = 1\ncurrency = ' '"]
    + [f"[big]\nper_hour = {each}\ncurrency = 'EUR'" for each in ("-1", "nan", "inf")],
)
def test_a_file_that_is_no_list_of_prices_is_refused(tmp_path, text):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UsageError, match="no list of prices") as caught:
        prices_from_file(tmp_path / "prices.toml")
    assert caught.value.facts.get("device") == ("big" if "=" in text else None)
    assert "\\n" not in str(caught.value.fix)


def test_one_device_alone_has_its_cost_and_its_bound_too(tmp_path):
    run = run_on("The Big One", 1e-3, batch=1)
    assert make([run]) is None
    told = {"prices": {"big": Price(per_hour=3.6, currency="EUR")}, "latency_under_s": 0.5}
    found = tables(make([replace(run, extra=told)]))
    assert found["devices"].rows[0][6].shown.endswith("EUR")
    assert found["devices_under"].rows
    request = ReportRequest(names=["x"], output=tmp_path, under="0ms")
    with pytest.raises(UsageError, match="under 0 s"):
        _with_prices([run], request)


def test_prices_of_other_devices_alone_are_a_mistake_and_said(tmp_path):
    (tmp_path / "prices.toml").write_text('[H100]\nper_hour = 3\ncurrency = "EUR"\n')
    runs = [run_on(name, 1e-3, batch=1) for name in ("The Big One", "small")]
    request = ReportRequest(names=["x"], output=tmp_path, prices=tmp_path / "prices.toml")
    with pytest.raises(UsageError, match="no price of a device in this report") as caught:
        _with_prices(runs, request)
    assert "The Big One (box), small (box)" in caught.value.facts["devices"]
    assert caught.value.facts["prices of"] == "H100"


def test_machines_of_one_kind_go_by_what_their_owners_call_them():
    runs = []
    for name in ("orin-1", "orin-2"):
        run = run_on("Cortex", 1e-3, batch=1, host=f"pod-{name}")
        named = run.record.environment.having(machine=name)
        record = run.record.having(environment=named)
        prices = {"cortex": Price(per_hour=1.0, currency="EUR")}
        runs.append(replace(run, record=record, extra={"prices": prices}))
    assert list(device_names(runs).values()) == ["orin-1", "orin-2"]
    assert labels_from_runs(runs) == ("orin-1", "orin-2")
    rows = tables(make(runs))["devices"].rows
    assert all(row[6].shown.endswith("EUR") for row in rows)  # prices know the kind as well


def test_the_machine_is_named_where_two_have_the_same_device():
    runs = [run_on("A", 1e-3, batch=1, host="x"), run_on("A", 1e-3, batch=1, host="y")]
    assert sorted(device_names(runs).values()) == ["A (x)", "A (y)"]
    assert make(runs) is not None
    assert joules_per_item(runs[0]) is None


def test_a_run_on_a_gpu_belongs_to_that_gpu():
    made = run_on("A", 1e-3, batch=1)
    gpus = (Gpu(name="first"), Gpu(name="second"))
    environment = made.record.environment.having(gpus=gpus)
    spec = made.record.spec.having(device="cuda:1")
    record = made.record.having(environment=environment, spec=spec)
    assert list(device_names([Run(record=record, times=made.times)]).values()) == ["second"]
