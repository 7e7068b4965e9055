"""One file per way to execute a model; the folder is the registry.

A runtime does not know the other runtimes, nor who started it. ``contract.py`` says what its file
offers.
"""

from collections.abc import Callable

from trtbench.core.errors import UsageError
from trtbench.core.plugins import Registry
from trtbench.core.spec import RunSpec
from trtbench.runtimes._session import Session
from trtbench.runtimes.contract import Runtime

RUNTIMES = Registry("trtbench.runtimes", noun="runtime", contract=Runtime)


def session_opener(name: str) -> Callable[[RunSpec], Session]:
    """Return the function that loads a model in this process; raises for trtexec, a program."""
    opener = RUNTIMES.load(name).open_session
    if opener is None:
        raise UsageError(f"the runtime {name} returns no outputs", fix="-r NAME of another one")
    return opener


def device_of(spec: RunSpec) -> str:
    """Return the device on which the runtime of a run measures."""
    return RUNTIMES.load(spec.runtime).device(spec)
