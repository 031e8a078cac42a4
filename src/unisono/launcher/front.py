"""Why ranks are in one session, and how they read a terminal nevertheless.

Linux shares cores among sessions first, and then among the processes of each (`sched_autogroup_enabled`): a rank that
waits, and gives its core away, gives it to nobody of another session. So the ranks of a job stay in the session of who
starts them, each in a process group of its own. But of a session that has a terminal, only the group in front may read
it. Where there is one, the launcher and all ranks are a session of their own, which no terminal controls, and a process
stays in front of it to pass on what the terminal, or anybody, tells it.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from .interrupt import ENDING
from .rank import die_with


def leave_the_terminal() -> None:
    """Returns in a new process, if there is a terminal; this one ends as that does. Before there are threads."""
    if not os.isatty(0):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    bind = die_with(os.getpid())
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    child = os.fork()
    if child == 0:
        os.setsid()
        bind()
    else:
        _pass_on(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if child:
        _end_like(child)


def _pass_on(child: int) -> None:
    def tell(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, tell)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _end_like(child: int) -> None:
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # from here on, its number may be another process's
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
