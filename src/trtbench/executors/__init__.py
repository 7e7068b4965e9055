"""Where jobs run: on this machine, on a Ray cluster, by ssh; the folder is the registry.

``contract.py`` says what each module offers. An executor does not know what a job measures: a value
in, a folder out.
"""

from __future__ import annotations

from trtbench.executors._hosts import HostsFile
from trtbench.executors._request import (
    Executor,
    ExecutorSettings,
    Needs,
    Partner,
    Request,
    Tell,
    Told,
)
from trtbench.executors.contract import ExecutorModule
from trtbench.registry import Registry

__all__ = [
    "EXECUTORS",
    "Executor",
    "ExecutorSettings",
    "HostsFile",
    "Needs",
    "Partner",
    "Request",
    "Tell",
    "Told",
]

EXECUTORS = Registry("trtbench.executors", noun="executor", contract=ExecutorModule)
