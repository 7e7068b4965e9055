"""Ports and who listens on them, and nodes of Ray that know theirs before they start."""

import contextlib
import itertools
import os
import socket
from pathlib import Path

_LEAST, _COUNT = 20_000, 12_000
"""Ports that no system gives to who does not ask for one: they stay free until they are used."""
_numbers = itertools.count(os.getpid() * 64)


def free_port() -> int:
    """Find a port that nobody listens on, and that was not found before."""
    while True:
        port = _LEAST + next(_numbers) % _COUNT
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port


def listens(port: int) -> bool:
    """Tell whether somebody takes connections on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def agent_ports() -> dict[str, int]:
    """Choose ports for the agents of a Ray node, see ``patient_raylet``."""
    names = ("metrics_agent", "metrics_export", "dashboard_agent_listen", "runtime_env_agent")
    return {f"{name}_port": free_port() for name in names}


def patient_raylet(folder: Path) -> str:
    """Write a program that starts Ray's part of a node and has it wait for nobody.

    A node whose agents choose their own ports ends itself when they take more than 15 s for it, as
    they do on a busy machine. One of the ports Ray's Python does not hand on.
    """
    from ray._private import services

    program = folder / "raylet"
    listens = f"--dashboard_agent_listen_port={free_port()}"
    program.write_text(f'#!/bin/sh\nexec {services.RAYLET_EXECUTABLE} "$@" {listens}\n')
    program.chmod(0o755)
    return str(program)
