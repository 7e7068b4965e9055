"""``python -m trtbench`` is the command line."""

from trtbench.cli import main

main()
