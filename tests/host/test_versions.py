import pytest

from trtbench import __version__
from trtbench.host.machine import library_versions


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make a distribution visible without any code behind it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, version: str | None) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version or 0}.dist-info"
        folder.mkdir()
        line = f"Version: {version}\n" if version else ""
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n{line}")

    return install


@pytest.mark.parametrize(
    ("asked", "distribution"),
    [
        ("tensorrt", "tensorrt-cu12"), ("tensorrt", "tensorrt_cu13_bindings"),
        ("tensorrt", "tensorrt_bindings"), ("tensorrt", "tensorrt-lean"),
        ("tensorrt_rtx", "tensorrt_rtx_cu13"), ("tensorrt-rtx", "tensorrt_rtx_cu13"),
    ],
)  # fmt: skip
def test_a_library_is_found_under_every_name_it_is_sold_by(install, asked, distribution):
    install(distribution, "77.1.2")
    found = library_versions([asked])
    assert found[asked] == found[distribution.replace("_", "-")] == "77.1.2"


def test_the_trtbench_that_runs_is_told_and_not_the_one_that_is_installed(install):
    """A machine of a fleet is lent this package; it may have another, or none."""
    install("trtbench", "0.0.1")
    assert library_versions(["trtbench"]) == {"trtbench": __version__}
