"""Executors run jobs on other machines: a Ray cluster, or hosts by ssh. The folder is the registry.

``contract.py`` says what each module offers. An executor does not know what a job measures: it gets
a value and returns a folder.
"""

from trtbench.core.plugins import Registry
from trtbench.executors._node import ANSWER as ANSWER
from trtbench.executors._transfer import FILE_MARK as FILE_MARK
from trtbench.executors._transfer import with_local_paths as with_local_paths
from trtbench.executors._transfer import with_marks as with_marks
from trtbench.executors.contract import ExecutorModule

EXECUTORS = Registry("trtbench.executors", noun="executor", contract=ExecutorModule)
