"""One file per way to build an engine; ``contract.py`` says what it offers."""

from __future__ import annotations

from trtbench.build.builders.contract import Builder
from trtbench.registry import Registry

BUILDERS = Registry("trtbench.build.builders", noun="builder", contract=Builder)
