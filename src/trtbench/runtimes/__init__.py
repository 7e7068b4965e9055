"""One file per way to execute a model; the folder is the registry.

A runtime does not know the other runtimes, nor who started it. Its module has:

``FORMATS``          model formats it executes
``available()``      ``None`` when it works here, else the reason in a few words
``fix()``            what to type to get it
``device(spec)``     what is locked while it measures: ``cpu`` or ``cuda:0``
``bench(spec, ...)`` measure one launch; see ``_bench.Bench``
``open_session``     for runtimes that live in the worker's process: see ``_session.Session``
"""

from __future__ import annotations

from trtbench.registry import Registry

RUNTIMES = Registry("trtbench.runtimes", noun="runtime")
