"""What becomes of a child process, and of what it started, in every way it can end."""

import os
import sys

import psutil
import pytest

from trtbench.host import process
from trtbench.host.process import Child, run_process, run_together, tail
from waiting import printed, wait_for

pytestmark = pytest.mark.process


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code, "{events}"]


def gone(pid: int) -> bool:
    """Wait until a process is no more (or is only waiting to be taken off the list)."""

    def is_gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return wait_for(is_gone)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.txt"


def test_status_output_and_lines(log):
    heard = []
    code = "import os, sys; print('out'); os.write(int(sys.argv[1]), b'a\\nb\\n'); sys.exit(7)"
    end = run_process(python(code), log=log, on_line=heard.append)
    assert (end.status, end.signal, end.timed_out) == (7, None, False)
    assert heard == ["a", "b"]
    assert tail(log) == ("out",)


def test_a_hang_that_ignores_sigterm_is_killed(log, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    code = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "os.write(int(sys.argv[1]), b'deaf\\n'); time.sleep(3600)"
    )
    heard, patience_s = [], 0.3
    while not heard:  # on a busy machine it may be ended before it is deaf
        patience_s *= 2
        end = run_process(python(code), log=log, timeout_s=patience_s, on_line=heard.append)
    assert (end.timed_out, end.signal) == (True, "SIGKILL")


def test_a_child_that_closes_its_pipe_and_goes_on_is_waited_for(log):
    code = "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(0.4); sys.exit(5)"
    end = run_process(python(code), log=log)
    assert (end.status, end.timed_out) == (5, False)


def test_a_child_that_closes_its_pipe_and_hangs_is_ended(log):
    code = "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(3600)"
    assert run_process(python(code), log=log, timeout_s=0.5).timed_out


FORKED = """
import os, sys, time
pid = os.fork()
if not pid:
    time.sleep(3600)
    os._exit(0)
os.write(int(sys.argv[1]), f"{pid}\\n".encode())
"""


@pytest.mark.parametrize(
    ("last_words", "status"), [("sys.exit(0)", 0), ("os.kill(os.getpid(), 9)", None)]
)
def test_a_grandchild_that_holds_the_pipe_neither_delays_the_end_nor_outlives_it(
    log, last_words, status
):
    heard = []
    end = run_process(
        python(FORKED + last_words), log=log, on_line=lambda line: heard.append(int(line))
    )
    assert end.status == status
    assert gone(heard[0])


def test_grandchildren_end_with_a_child_that_hangs(log):
    heard, patience_s, command = [], 0.3, python(FORKED + "time.sleep(3600)")
    while not heard:
        patience_s *= 2
        run_process(command, log=log, timeout_s=patience_s, on_line=lambda x: heard.append(int(x)))
    assert gone(heard[0])


def test_without_a_handle_on_the_process_the_end_is_noticed_all_the_same(log, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    end = run_process(python(FORKED + "sys.exit(4)"), log=log)
    assert end.status == 4


def test_a_second_interrupt_while_waiting_for_the_end_still_kills(log, monkeypatch):
    heard, sleep = [], process.time.sleep

    def interrupt(line):
        heard.append(int(line))
        monkeypatch.setattr(process.time, "sleep", interrupted_sleep)
        raise KeyboardInterrupt

    def interrupted_sleep(seconds):
        monkeypatch.setattr(process.time, "sleep", sleep)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "GRACE_S", 3600.0)
    code = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "os.write(int(sys.argv[1]), b'%d\\n' % os.getpid()); time.sleep(3600)"
    )
    with pytest.raises(KeyboardInterrupt):
        run_process(python(code), log=log, on_line=interrupt)
    assert gone(heard[0])


def test_the_tail_of_a_long_log_is_its_last_lines(log):
    code = "import os\nfor i in range(10_000): print('line', i)\nos.kill(os.getpid(), 9)"
    command = [sys.executable, "-u", "-c", code]
    assert run_process(command, log=log).signal == "SIGKILL"
    assert tail(log) == tuple(f"line {i}" for i in range(9980, 10_000))


def test_the_tail_of_one_endless_line_and_of_bytes_that_are_no_text(log):
    log.write_bytes(b"x" * 1_000_000 + b"\n\xff\xfe end\n")
    assert tail(log, lines=1) == ("�� end",)
    assert len("".join(tail(log))) <= 65536


def starts(log, *codes):
    return [lambda code=code: Child(python(code), log=log) for code in codes]


def test_when_one_of_two_fails_the_other_does_not_wait_forever(log, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.3)
    ends = run_together(starts(log, "import time; time.sleep(3600)", "import sys; sys.exit(3)"))
    assert [(end.status, end.signal, end.timed_out) for end in ends] == [
        (None, "SIGTERM", False),
        (3, None, False),
    ]


def test_one_of_two_may_end_well_before_the_other(log):
    ends = run_together(starts(log, "pass", "import time; time.sleep(0.5)"))
    assert [end.status for end in ends] == [0, 0]


def test_a_second_that_cannot_start_ends_the_first(log):
    first = Child(python("import time; time.sleep(3600)"), log=log)
    pid = first._process.pid
    with pytest.raises(FileNotFoundError):
        run_together([lambda: first, lambda: Child(["/nonexistent/python"], log=log)])
    assert gone(pid)


def test_ticks_come_while_nothing_is_said(log, tmp_path):
    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 3:
            (tmp_path / "enough").touch()

    code = f"import pathlib, time\nwhile not pathlib.Path({str(tmp_path / 'enough')!r}).exists():"
    end = run_process(python(f"{code} time.sleep(0.01)"), log=log, tick_s=0.02, on_tick=tick)
    assert end.status == 0
    assert len(ticks) >= 3


def test_no_descriptor_is_left_open(log):
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    run_process(python("pass"), log=log)
    run_process(python("import time; time.sleep(3600)"), log=log, timeout_s=0.2)
    with pytest.raises(FileNotFoundError):
        run_process(["/nonexistent/python"], log=log)
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


TOLD = "import os; print(len(os.listdir('/proc/self/task')), 'OPENBLAS_NUM_THREADS' in os.environ)"


@pytest.mark.parametrize("module", ["trtbench.worker", "trtbench.one_thread"])
def test_numpy_brings_no_threads_and_leaves_no_trace(module: str) -> None:
    kept = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    code = f"import {module}, numpy; {TOLD}"
    assert printed([sys.executable, "-c", code], env=kept).split() == ["1", "False"]
