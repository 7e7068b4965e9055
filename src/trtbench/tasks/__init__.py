"""Evaluation tasks: one file per task, with its data, pre- and postprocessing and metrics.

A task knows files, arrays and ground truth; it does not know runtimes, processes, stores or
reports. ``contract.py`` defines what a task provides; modules that begin with ``_`` are not tasks.
"""

from trtbench.core.metrics import declare_metrics
from trtbench.core.plugins import Registry
from trtbench.tasks.contract import Task


class _Tasks(Registry[Task]):
    def load(self, name: str) -> Task:
        task = super().load(name)
        declare_metrics(task.METRICS)
        return task


TASKS = _Tasks("trtbench.tasks", noun="task", contract=Task)
