"""How each runtime waits for its turn: its idle threads must leave the processor alone."""

import json
import sys
from pathlib import Path

import onnxruntime
import pytest

from models import conv_model
from trtbench.core.spec import RunSpec
from trtbench.models.identity import model_ref
from trtbench.runtimes import onnxruntime as ort
from waiting import printed, with_patience

SHARES = hasattr(onnxruntime, "set_global_thread_pool_sizes")


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    model = conv_model(tmp_path / "model.onnx", channels=4, size=16, layers=2)
    return RunSpec(model=model_ref(model), runtime="onnxruntime")


def test_sessions_of_one_process_share_a_pool_and_those_of_two_stop_theirs(spec: RunSpec) -> None:
    together = ort.turn_spec(spec, (spec, spec))
    assert together.spec.options["spinning"] == ("shared" if SHARES else "run")
    assert together.like_alone is SHARES
    apart = ort.turn_spec(spec, ())
    assert apart.spec.options["spinning"] == "run"
    assert not apart.like_alone, "a pool that stops must be woken, which costs time"


def test_sides_with_other_pools_do_not_share_one(spec: RunSpec) -> None:
    other = spec.having(threads=2)
    found = ort.turn_spec(spec, (spec, other))
    assert found.spec.options["spinning"] == "run"


@pytest.mark.parametrize("changes", [{"threads": 1}, {"options": {"spinning": "off"}}])
def test_a_side_without_spinning_threads_is_left_as_it_is(
    spec: RunSpec, changes: dict[str, object]
) -> None:
    quiet = spec.having(**changes)
    found = ort.turn_spec(quiet, (quiet, quiet))
    assert found.spec == quiet
    assert found.like_alone


SPUN = """
import json, sys, time
from pathlib import Path
from trtbench.core.spec import RunSpec
from trtbench.models.identity import model_ref
from trtbench.runtimes._session import resolve_inputs
from trtbench.runtimes.onnxruntime import open_session
spec = RunSpec(model=model_ref(Path(sys.argv[1])), runtime="onnxruntime", threads=2, batch=1,
               options={"spinning": sys.argv[2]})
session = open_session(spec)
session.bind(resolve_inputs(session.inputs, spec)[1])
step = session.step()
clock = lambda: time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
spent = []
for _ in range(7):
    for _ in range(20):
        step()
    before = clock()
    time.sleep(float(sys.argv[3]))
    spent.append(clock() - before)
print(json.dumps(sorted(spent)[3]))
"""


def test_a_pool_that_stops_uses_no_processor_after_its_query(spec: RunSpec) -> None:
    def spent(way: str, wait_s: float) -> float:
        command = [sys.executable, "-c", SPUN, spec.model.path, way, str(wait_s)]
        return float(json.loads(printed(command)))

    def both(seconds: float) -> tuple[float, float]:
        return spent("run", seconds / 75), spent("on", seconds / 75)

    # On a busy machine a short wait is over before a thread that spins had its turn.
    stops, spins = with_patience(both, far_enough=lambda used: used[0] < 0.5 * used[1])
    assert stops < 0.5 * spins
