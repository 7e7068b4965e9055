"""What the file of an executor offers; ``EXECUTORS`` holds every one to it when it is loaded."""

from __future__ import annotations

from typing import Protocol

from trtbench.executors._request import Executor, ExecutorSettings


class ExecutorModule(Protocol):
    """The module of an executor."""

    ELSEWHERE: bool = False
    """Whether work leaves this machine: engines are then built where they are measured."""

    TAKES: tuple[str, ...] = ("address", "hosts", "wait_node")
    """Flags for executors that mean something to it."""

    def open_executor(self, settings: ExecutorSettings) -> Executor:
        """Open it as the user says."""
        ...
