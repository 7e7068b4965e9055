"""What models are for: one file per task, with its data, pre- and postprocessing and metrics.

A task knows files, arrays and ground truth; it does not know runtimes, processes, stores or
reports. ``contract.py`` says what a file must offer; names that begin with ``_`` are no tasks.
"""

from __future__ import annotations

from trtbench.registry import Registry
from trtbench.tasks.contract import Task

TASKS = Registry("trtbench.tasks", noun="task", contract=Task)
