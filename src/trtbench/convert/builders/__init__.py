"""One module per builder of engines; ``contract.py`` defines what a module must have."""

from trtbench.convert.builders.contract import Builder
from trtbench.core.plugins import Registry

BUILDERS = Registry("trtbench.convert.builders", noun="builder", contract=Builder)
