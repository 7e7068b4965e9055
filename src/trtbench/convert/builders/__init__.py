"""One file per way to build an engine; ``contract.py`` says what it offers."""

from __future__ import annotations

from trtbench.convert.builders.contract import Builder
from trtbench.core.plugins import Registry

BUILDERS = Registry("trtbench.convert.builders", noun="builder", contract=Builder)
