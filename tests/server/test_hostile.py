"""Who does not belong to the job, or sends nonsense, changes nothing."""

from tests.server.jobs import succeed


def test_strangers_and_nonsense_change_nothing() -> None:
    assert succeed("hostile_worker.py", workers=2, servers=2).count("unmoved") == 2
