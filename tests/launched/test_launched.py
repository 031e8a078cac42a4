"""The same script under torchrun, Open MPI, MPICH, srun's variables, our own, and alone."""

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.comm.processes import KEY
from tests.launched.launchers import SCRIPT, Start, environment, free_address, mpich, open_mpi, run, torchrun


@pytest.fixture(params=[torchrun, open_mpi, mpich], ids=lambda start: start.__name__)
def start(request: pytest.FixtureRequest) -> Start:
    launcher: Start = request.param
    return launcher


def assert_summed(done: subprocess.CompletedProcess[str], ranks: int, words: str = "[]") -> None:
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if " of " in line]
    total = [ranks * (ranks + 1) // 2]
    assert sorted(lines) == [f"{rank} of {ranks}, sum {total}, by mpi {words}" for rank in range(ranks)]


def test_ranks_find_each_other_with_nothing_set(start: Start) -> None:
    assert_summed(start(4), 4)


def test_a_second_communicator_is_another_meeting(start: Start) -> None:
    done = start(3, "twice")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum [6, 3]") == 3


def test_a_rank_that_leaves_early_takes_nobody_with_it(start: Start) -> None:
    done = start(3, "leave-early")
    assert_summed(done, 3)
    assert done.stdout.count("stayed") == 2


def test_a_key_and_an_address_that_are_set_count(start: Start) -> None:
    assert_summed(start(3, UNISONO_KEY=KEY, UNISONO_RENDEZVOUS=free_address()), 3)
    assert_summed(start(3, UNISONO_RENDEZVOUS=free_address()), 3)


@pytest.mark.parametrize(
    ("mpi", "moment"),
    [(open_mpi, "mpi-before"), (mpich, "mpi-before"), (mpich, "mpi-after")],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_a_program_may_use_mpi_itself(mpi: Start, moment: str) -> None:
    assert_summed(mpi(3, moment), 3, words="[3]")


def test_a_job_without_libpmix_is_told_what_to_set() -> None:
    nowhere = {"PMIX_PREFIX": "/nowhere", "OPAL_PREFIX": "/nowhere", "LD_LIBRARY_PATH": "/nowhere"}
    told = {
        "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "x", "PMIX_SERVER_URI41": "x",
    }  # fmt: skip
    done = run([sys.executable, str(SCRIPT)], **told, **nowhere)
    assert "libpmix.so.2: cannot open shared object file" in done.stderr
    assert "set the same UNISONO_KEY and UNISONO_RENDEZVOUS=host:port on every rank" in done.stderr


@pytest.mark.parametrize(("descriptor", "why"), [("999", "Bad file descriptor"), ("0", "no socket"), ("x", "Bad file")])
def test_a_child_of_a_rank_of_mpich_is_told_what_to_set(descriptor: str, why: str) -> None:
    done = run([sys.executable, str(SCRIPT)], PMI_RANK="1", PMI_SIZE="2", PMI_FD=descriptor)
    assert why in done.stderr
    assert "Else set the same UNISONO_KEY and UNISONO_RENDEZVOUS=host:port on every rank" in done.stderr


def test_a_store_that_does_not_answer_is_given_up_at_the_deadline() -> None:
    hydra, ours = socket.socketpair()
    with hydra, ours:
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            env=environment(PMI_RANK="1", PMI_SIZE="2", PMI_FD=str(ours.fileno()), UNISONO_DEADLINE="0.5"),
            pass_fds=(ours.fileno(),),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert "DeadlineExceeded: mpiexec's Hydra did not answer on PMI_FD=" in done.stderr
    assert "in 0.5 s; have all ranks called unisono.init()?" in done.stderr


def of_srun(address: str, rank: int) -> dict[str, str]:
    job = address.rpartition(":")[2]  # a number that no other test has
    step = {"SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "node7"}
    return step | {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_LOCALID": str(rank)}


def of_ours(address: str, rank: int) -> dict[str, str]:
    return {"UNISONO_RANK": str(rank), "UNISONO_SIZE": "3", "UNISONO_RENDEZVOUS": address}


@pytest.mark.parametrize("variables", [of_srun, of_ours], ids=["srun", "ours"])
def test_ranks_started_by_hand_meet_where_their_variables_say(variables: Callable[[str, int], dict[str, str]]) -> None:
    address = free_address()
    with ExitStack() as stack:
        ranks = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                env=environment(**variables(address, rank)),
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(3)
        ]
        for rank in ranks:
            stack.callback(rank.communicate)
            stack.callback(rank.kill)
        lines = sorted(rank.communicate(timeout=60)[0].strip() for rank in ranks)
    assert lines == [f"{rank} of 3, sum [6], by mpi []" for rank in range(3)]


def test_alone_it_is_one_rank() -> None:
    assert_summed(run([sys.executable, str(SCRIPT)]), 1)
