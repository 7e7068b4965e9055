"""Whether an engine's outputs are worth timing, and whether its CUDA graph gives the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.result import Scalar
from trtbench.errors import InputError, TrtbenchError
from trtbench.host.cuda import CaptureError, Cuda
from trtbench.runtimes._trt_tensors import Port, Unit, judged, same

Outputs = dict[str, NDArray[np.generic]]


class GraphCheck:
    """Runs every context on inputs that are measured and on fresh ones, plainly and by its graph.

    Outputs are emptied before each run: what a run leaves unwritten is then alike.
    """

    def __init__(
        self,
        cuda: Cuda,
        units: Sequence[Unit],
        *,
        inputs: Sequence[Port],
        run: Callable[[Unit, Callable[[], object]], None],
        outputs: Callable[[Unit], Outputs],
    ) -> None:
        self._cuda, self._units, self._inputs = cuda, units, inputs
        self._run, self._read = run, outputs
        self.evidence: dict[str, Scalar] = {}
        self.notes: tuple[str, ...] = ()

    def carry_out(self, put_fresh: Callable[[Unit], None], *, graph: bool) -> TrtbenchError | None:
        """Judge outputs, and where asked capture a graph; gives why there is none to be used.

        Inputs are those measured again afterwards.
        """
        measured = {name: each.host.copy() for name, each in self._units[0].buffers.items()}
        before = self._plain(self._units[0])
        for unit in self._units:
            put_fresh(unit)
        after = self._plain(self._units[0])
        changed = any(
            (self._units[0].buffers[port.name].host != measured[port.name]).any()
            for port in self._inputs
        )
        self.evidence |= judged(before, after, changed=changed)
        problem = self._captured(after) if graph else None
        for unit in self._units:
            for port in self._inputs:
                unit.buffers[port.name].host[:] = measured[port.name]
        # On inputs that came after the capture: a graph may keep those it was made with.
        if graph and problem is None:
            problem = self._difference(self._units, before)
        for unit in self._units:
            unit.launch = None if problem is not None else unit.launch
            self._run(unit, unit.enqueue())
        return problem

    def _captured(self, expected: Outputs) -> TrtbenchError | None:
        try:
            for unit in self._units:
                unit.launch = self._cuda.capture(unit.stream, _plain_enqueue(unit))
        except CaptureError as problem:
            return problem
        return self._difference(self._units[:1], expected)

    def _difference(self, units: Sequence[Unit], expected: Outputs) -> InputError | None:
        """Replay graphs on the inputs that are there, and hold their outputs to the engine's."""
        wrong = sorted({name for unit in units for name in self._wrong(unit, expected)})
        if not wrong:
            return None
        self.evidence["graph_outputs_differ"] = True
        return InputError(
            "the CUDA graph gives other results than the engine itself",
            facts={"outputs": ", ".join(wrong)},
            fix="--cuda-graph off",
        )

    def _wrong(self, unit: Unit, expected: Outputs) -> list[str]:
        """Name outputs that differ by the graph alone; some engines never give the same twice."""
        found = self._emptied_run(unit, unit.enqueue())
        differ = [name for name in expected if not same(expected[name], found[name])]
        again = self._plain(unit) if differ else {}
        unsteady = [name for name in differ if not same(expected[name], again[name])]
        if unsteady and "outputs_repeat" not in self.evidence:
            self.evidence["outputs_repeat"] = False
            self.notes = (
                f"{', '.join(unsteady)} came out otherwise in a second plain run on the same "
                "inputs: whether the CUDA graph gives the same cannot be told",
            )
        return [name for name in differ if name not in unsteady]

    def _plain(self, unit: Unit) -> Outputs:
        return self._emptied_run(unit, _plain_enqueue(unit))

    def _emptied_run(self, unit: Unit, enqueue: Callable[[], object]) -> Outputs:
        for buffer in unit.buffers.values():
            if not buffer.port.is_input and not buffer.port.on_host:
                self._cuda.clear(buffer.device, buffer.host.nbytes, unit.stream)
        self._run(unit, enqueue)
        return self._read(unit)


def _plain_enqueue(unit: Unit) -> Callable[[], object]:
    return partial(unit.context.execute_async_v3, unit.handle)
