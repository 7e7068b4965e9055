"""Where jobs run instead of here: on a Ray cluster, by ssh; the folder is the registry.

``contract.py`` says what each module offers. An executor does not know what a job measures: a value
in, a folder out.
"""

from __future__ import annotations

from trtbench.core.plugins import Registry
from trtbench.executors._node import ANSWER as ANSWER
from trtbench.executors._transfer import FILE_MARK as FILE_MARK
from trtbench.executors._transfer import cache_folder as cache_folder
from trtbench.executors._transfer import with_marks as with_marks
from trtbench.executors._transfer import with_own_names as with_own_names
from trtbench.executors.contract import ExecutorModule

EXECUTORS = Registry("trtbench.executors", noun="executor", contract=ExecutorModule)
