"""What a rank is told, by whom, and what it says about nonsense."""

from __future__ import annotations

import pytest

from unisono.config import Address, Settings, read_settings
from unisono.errors import ConfigError

KEY = "0123456789abcdef"
UNISONO = {"UNISONO_RANK": "1", "UNISONO_SIZE": "4", "UNISONO_RENDEZVOUS": "10.0.0.1:29400", "UNISONO_KEY": KEY}
TORCHRUN = {
    "RANK": "2", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-vm-4711@1",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "node[07-09,12],other",
}  # fmt: skip


def read(environ: dict[str, str], **arguments: object) -> Settings:
    return read_settings(environ=environ, **arguments)  # type: ignore[arg-type]


def place(settings: Settings) -> tuple[int, int, int | None, str]:
    return settings.rank, settings.size, settings.local_rank, settings.launcher


def test_a_process_that_nobody_launched_is_a_job_of_one_rank() -> None:
    settings = read({})
    assert place(settings) == (0, 1, None, "none")
    assert (settings.deadline, settings.start_timeout, settings.links) == (300, 60, "auto")


def test_our_own_variables_say_everything() -> None:
    more = {
        "UNISONO_LOCAL_RANK": "1", "UNISONO_DEADLINE": "2.5", "UNISONO_LINKS": "TCP", "UNISONO_PORTS": "30000-30099",
        "UNISONO_TRACE": "traces", "UNISONO_JOB": "nightly", "UNISONO_HOST": "a", "UNISONO_BIND": "0.0.0.0",
        "UNISONO_STREAMS": "4", "UNISONO_DUMP": "dumps",
    }  # fmt: skip
    assert read(UNISONO | more) == Settings(
        rank=1, size=4, local_rank=1, rendezvous=Address("10.0.0.1", 29400), bind="0.0.0.0", key=KEY, job="nightly",
        host="a", deadline=2.5, start_timeout=2.5, links="tcp", ports=range(30000, 30100), streams=4,
        trace="traces", dump="dumps", launcher="unisono",
    )  # fmt: skip


def test_an_argument_counts_more_than_a_variable_and_a_variable_more_than_a_launcher() -> None:
    assert place(read(TORCHRUN | UNISONO)) == (1, 4, None, "unisono")
    assert place(read(TORCHRUN | UNISONO, rank=3, size=5)) == (3, 5, None, "unisono")
    assert read(TORCHRUN | {"UNISONO_RENDEZVOUS": "[::1]:5"}).rendezvous == Address("::1", 5)


def test_without_torchruns_agent_its_port_is_never_used() -> None:
    told = {name: text for name, text in TORCHRUN.items() if name != "TORCHELASTIC_USE_AGENT_STORE"}
    settings = read(told)
    assert place(settings) == (2, 8, 2, "torchrun")
    assert settings.store is None
    point = settings.meeting_point()
    assert point.host == "node0"
    assert point == read(told | {"RANK": "5", "LOCAL_RANK": "1"}).rendezvous
    assert point != read(told | {"TORCHELASTIC_RESTART_COUNT": "1"}).rendezvous
    for port in range(20000, 32768, 500):
        assert read(told | {"MASTER_PORT": str(port)}).meeting_point().port != port
    assert read(told | {"LOCAL_WORLD_SIZE": "8"}).meeting_point().host == "127.0.0.1"


def test_what_a_launcher_stores_is_where_the_ranks_find_rank_0() -> None:
    assert read(TORCHRUN).store == ("tcp_store", "node0:29500", "node0")
    assert read(TORCHRUN | {"LOCAL_WORLD_SIZE": "8"}).store == ("tcp_store", "node0:29500", "127.0.0.1")
    server = {"PMIX_SERVER_URI41": "prterun@0.0;tcp4://127.0.0.1:4", "PMIX_PREFIX": "/mpi", "LD_LIBRARY_PATH": "/a:/b"}
    assert read(OPEN_MPI | server).store == ("pmix", "/mpi/lib/openmpi:/mpi/lib:/mpi/lib64:/a:/b", "127.0.0.1")
    assert read(MPICH).store == ("pmi", "9", "127.0.0.1")
    assert read(MPICH | {"MPI_LOCALNRANKS": "1"}).store == ("pmi", "9", "")
    for told in (TORCHRUN, OPEN_MPI | server, MPICH):
        assert read(told).rendezvous is None
        explicit = read(told | {"UNISONO_RENDEZVOUS": "10.0.0.1:5"})
        assert explicit.rendezvous == Address("10.0.0.1", 5)
        assert explicit.store is not None
    assert read(TORCHRUN | UNISONO).store is None  # another job than the launcher's


def test_open_mpi_on_one_host_meets_on_the_loopback_interface() -> None:
    settings = read(OPEN_MPI)
    assert place(settings) == (3, 4, 3, "openmpi")
    assert settings.meeting_point().host == "127.0.0.1"
    with pytest.raises(ConfigError, match="openmpi, which does not say where rank 0 is: set UNISONO_RENDEZVOUS"):
        read(OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}).meeting_point()


def test_mpich_without_its_descriptor_needs_a_meeting_point_and_says_so() -> None:
    assert place(read(MPICH)) == (1, 2, 1, "mpich")
    told = {name: text for name, text in MPICH.items() if name != "PMI_FD"}
    with pytest.raises(ConfigError, match="set UNISONO_RENDEZVOUS=host:port"):
        read(told).meeting_point()
    assert read(told | {"UNISONO_JOB": "nightly"}).meeting_point().host == "127.0.0.1"


def test_srun_meets_on_the_first_host_of_the_step() -> None:
    assert place(read(SRUN)) == (5, 8, 1, "srun")
    assert read(SRUN).meeting_point().host == "node07"
    assert read(SRUN | {"SLURM_STEP_NODELIST": "a,b"}).meeting_point().host == "a"
    assert read(SRUN | {"SLURM_STEP_NODELIST": "a"}).meeting_point().host == "127.0.0.1"


def test_a_batch_script_of_slurm_is_one_process() -> None:
    script = {name: text for name, text in SRUN.items() if "STEP" not in name}
    assert read(script).size == 1
    assert read(SRUN | {"SLURM_STEP_ID": "4294967290"}).size == 1


def test_an_indexed_kubernetes_job_says_the_rank_if_we_are_told_the_size() -> None:
    job = {"JOB_COMPLETION_INDEX": "2"}
    assert read(job).size == 1
    told = read(job | {"UNISONO_SIZE": "3", "UNISONO_RENDEZVOUS": "job-0.svc:29400"})
    assert place(told) == (2, 3, None, "kubernetes")


def test_a_launcher_inside_another_is_found_first() -> None:
    assert read(SRUN | OPEN_MPI | TORCHRUN).launcher == "torchrun"
    assert read(SRUN | MPICH).launcher == "mpich"
    same = {"PMI_RANK": "5", "PMI_SIZE": "8"}
    assert read(SRUN | same).meeting_point().host == "node07"


def test_the_launcher_can_be_named_and_switched_off() -> None:
    everything = SRUN | OPEN_MPI | TORCHRUN | UNISONO
    assert place(read(everything | {"UNISONO_LAUNCHER": "none"})) == (0, 1, None, "none")
    assert read(everything | {"UNISONO_LAUNCHER": "none", "UNISONO_DEADLINE": "5"}).deadline == 5
    without = {name: text for name, text in everything.items() if not name.startswith("UNISONO_")}
    assert read(without, launcher="slurm").launcher == "srun"
    assert read(without | {"UNISONO_LAUNCHER": "openmpi"}).rank == 3
    with pytest.raises(ConfigError, match="UNISONO_RANK is not set"):
        read(without | {"UNISONO_LAUNCHER": "unisono"})
    with pytest.raises(ConfigError, match="PMI_RANK, PMI_SIZE are not set"):
        read({"UNISONO_LAUNCHER": "mpich"})


NONSENSE = [
    ({"UNISONO_RANK": "x"}, "UNISONO_RANK='x': valid is a whole number from 0 up"),
    ({"UNISONO_RANK": "-1"}, "UNISONO_RANK='-1': valid"),
    ({"UNISONO_RANK": "٣"}, "UNISONO_RANK='٣': valid"),
    ({"UNISONO_SIZE": "0"}, "UNISONO_SIZE='0': valid is a whole number from 1 up"),
    ({"UNISONO_SIZE": "9" * 99}, "valid is a whole number"),
    ({"UNISONO_RANK": "4"}, "UNISONO_RANK=4 with UNISONO_SIZE=4: valid ranks are 0 to 3"),
    ({"UNISONO_SIZE": ""}, "UNISONO_SIZE is not"),
    ({"UNISONO_RANK": ""}, "UNISONO_RANK is not set"),
    ({"UNISONO_RENDEZVOUS": ""}, "set UNISONO_RENDEZVOUS=host:port"),
    ({"UNISONO_RENDEZVOUS": "host"}, "UNISONO_RENDEZVOUS='host': valid is host:port"),
    ({"UNISONO_RENDEZVOUS": "host:0"}, "port from 1 to 65535"),
    ({"UNISONO_RENDEZVOUS": ":29400"}, "valid is host:port"),
    ({"UNISONO_RENDEZVOUS": "host:99999"}, "valid is host:port"),
    ({"UNISONO_DEADLINE": "soon"}, "UNISONO_DEADLINE='soon': valid is a number of seconds above 0"),
    ({"UNISONO_DEADLINE": "inf"}, "UNISONO_DEADLINE='inf'"),
    ({"UNISONO_DEADLINE": "-1"}, "UNISONO_DEADLINE='-1'"),
    ({"UNISONO_LINKS": "shmem"}, "UNISONO_LINKS='shmem': valid is one of auto, shm, staged, tcp; did you mean 'shm'?"),
    ({"UNISONO_PORTS": "5-3"}, "UNISONO_PORTS='5-3': valid is a range of ports such as 30000-30099"),
    ({"UNISONO_PORTS": "a-b"}, "UNISONO_PORTS='a-b'"),
    ({"UNISONO_PORTS": "1-70000"}, "within 1-65535"),
    ({"UNISONO_STREAMS": "0"}, "UNISONO_STREAMS='0': valid is a whole number from 1 to 16"),
    ({"UNISONO_STREAMS": "17"}, "UNISONO_STREAMS='17': valid"),
    ({"UNISONO_STREAMS": "two"}, "UNISONO_STREAMS='two': valid"),
    ({"UNISONO_LAUNCHER": "torchrnu"}, "did you mean 'torchrun'?"),
    ({"UNISONO_LOCAL_RANK": "?"}, "UNISONO_LOCAL_RANK='?'"),
]


@pytest.mark.parametrize(
    ("variables", "hint"), NONSENSE, ids=[str(next(iter(variables.items()))) for variables, _ in NONSENSE]
)
def test_a_bad_value_is_named_with_what_is_valid(variables: dict[str, str], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(UNISONO | variables)
    assert hint in str(caught.value)


def test_a_bad_argument_is_named_as_an_argument() -> None:
    with pytest.raises(ConfigError, match=r"^deadline='0': valid"):
        read({}, deadline=0)
    with pytest.raises(ConfigError, match=r"^rank=7 with size=4"):
        read({}, rank=7, size=4)


def test_the_key_is_never_shown() -> None:
    assert KEY not in repr(read(UNISONO))
    with pytest.raises(ConfigError, match="UNISONO_KEY has 6 characters, valid is 16 or more") as caught:
        read(UNISONO | {"UNISONO_KEY": "sesame"})
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("value", ["off", "OFF", ""])
def test_dumps_can_be_switched_off(value: str) -> None:
    assert read({"UNISONO_DUMP": value}).dump is None
    assert read({"UNISONO_DUMP": "dumps"}, dump=value or None).dump == (None if value else "dumps")
