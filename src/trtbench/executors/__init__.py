"""Where jobs run: on this machine, on a Ray cluster, by ssh; the folder is the registry.

Each module has ``open_executor(settings)``. An executor does not know what a job measures: a value
in, a folder out.
"""

from __future__ import annotations

from trtbench.executors._request import Executor, Needs, Partner, Request, Settings, Tell, Told
from trtbench.registry import Registry

__all__ = [
    "EXECUTORS",
    "Executor",
    "Needs",
    "Partner",
    "Request",
    "Settings",
    "Tell",
    "Told",
]

EXECUTORS = Registry("trtbench.executors", noun="executor")
