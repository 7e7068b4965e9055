"""Where jobs run: on this machine, on a Ray cluster, by ssh; the folder is the registry.

``contract.py`` says what each module offers. An executor does not know what a job measures: a value
in, a folder out.
"""

from __future__ import annotations

from trtbench.executors._errand import FILE_MARK, with_marks, with_own_names
from trtbench.executors._folders import cache_folder
from trtbench.executors._hosts import HostsFile
from trtbench.executors._interpreter import (
    WORKER_NEEDS,
    can_import,
    check_interpreter,
    worker_environment,
)
from trtbench.executors._node import ANSWER, LACKS, told_from_error
from trtbench.executors._request import (
    AGAIN,
    WAITING,
    Bag,
    Errand,
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
    "AGAIN",
    "ANSWER",
    "EXECUTORS",
    "FILE_MARK",
    "LACKS",
    "WAITING",
    "WORKER_NEEDS",
    "Bag",
    "Errand",
    "Executor",
    "ExecutorSettings",
    "HostsFile",
    "Needs",
    "Partner",
    "Request",
    "Tell",
    "Told",
    "cache_folder",
    "can_import",
    "check_interpreter",
    "told_from_error",
    "with_marks",
    "with_own_names",
    "worker_environment",
]

EXECUTORS = Registry("trtbench.executors", noun="executor", contract=ExecutorModule)
