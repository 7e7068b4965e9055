"""One file per way to build an engine."""

from __future__ import annotations

from trtbench.registry import Registry

BUILDERS = Registry("trtbench.build.builders", noun="builder")
