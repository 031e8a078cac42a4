"""A communicator that nobody has closed goes with the garbage, in whatever thread that is collected."""

import threading
import time

from tests.comm.world import World

from unisono.comm.communicator import Communicator


def test_one_that_is_collected_on_its_own_mail_thread_is_closed_all_the_same() -> None:
    failures: list[object] = []
    threading.excepthook = failures.append

    def close_there(comm: Communicator) -> None:
        mail = comm._runner._explanation._lookout._mail
        thread = mail._thread
        comm._runner.close()
        mail.soon(comm._give_up)  # as a garbage collector does that happens to run there
        thread.join(30)
        assert not thread.is_alive()

    try:
        World.joined(2).run(close_there)
        until = time.monotonic() + 10
        while any(thread.name == "unisono-close" for thread in threading.enumerate()) and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        threading.excepthook = threading.__excepthook__
    assert failures == []
    assert not [thread for thread in threading.enumerate() if thread.name in ("unisono-mail", "unisono-close")]
