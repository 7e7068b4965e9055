"""A real PostgreSQL for the tests: started in a temporary folder, reached on the loopback only."""

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ports import free_port

Run = Callable[[list[object]], None]

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


def server_programs() -> Path:
    """The folder of initdb and pg_ctl; Debian keeps them off the search path."""
    found = shutil.which("pg_ctl")
    if found and shutil.which("initdb"):
        return Path(found).parent
    for place in _PLACES:
        for folder in sorted(Path("/").glob(place.removeprefix("/")), reverse=True):
            if (folder / "pg_ctl").is_file() and (folder / "initdb").is_file():
                return folder
    pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """Start a server of our own; gives the URL of its first database."""
    pytest.importorskip("psycopg", reason="the driver is not installed: trtbench[postgres]")
    programs, account = server_programs(), _account()
    # Not in pytest's folder, which is closed to other users again and again.
    with tempfile.TemporaryDirectory(prefix="trtbench-postgres-") as name:
        if account is not None:
            os.chown(name, account.pw_uid, account.pw_gid)
        with _started(Path(name), programs, _runner(account)) as url:
            yield url


@contextlib.contextmanager
def _started(folder: Path, programs: Path, run: Run) -> Iterator[str]:
    data, log = folder / "data", folder / "server.log"
    run([programs / "initdb", "-D", data, "-U", "team", "-A", "trust", "--no-sync",
         "--locale=C.UTF-8"])  # fmt: skip
    port = free_port()
    options = f"-h 127.0.0.1 -p {port} -k '' -c fsync=off -c max_connections=60"
    run([programs / "pg_ctl", "-D", data, "-l", log, "-w", "-t", "60", "-o", options, "start"])
    try:
        yield f"postgresql://team@127.0.0.1:{port}/postgres"
    finally:
        run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"])


def new_database(server: str) -> str:
    """Make an empty database, so that tests do not see each other's runs."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server.rpartition('/')[0]}/{name}"


def _account() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses to be root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


def _runner(account: pwd.struct_passwd | None) -> Run:
    identity = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid}

    def run(command: list[object]) -> None:
        done = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            **identity,
        )
        if done.returncode:
            pytest.skip(f"PostgreSQL does not start here: {done.stderr.decode()[-300:]}")

    return run
