"""torch.distributed on unisono. Skipped where torch is not installed: `pip install torch==2.13.0`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.comm.processes import shared_memory
from tests.torch.programs import collectives, failures, messages, training
from tests.torch.ranks import run

from unisono.errors import ConfigError

pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
UNISONO_RUN = [str(Path(sys.executable).with_name("unisono")), "run", "-n", "2"]


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_gives_what_torch_promises(ranks: int) -> None:
    run(collectives.every_one, ranks)


@pytest.mark.parametrize("ranks", [2, 3])
def test_parts_that_are_equal_on_some_ranks_only_are_exchanged(ranks: int) -> None:
    run(collectives.parts_equal_on_one_rank_only, ranks)


@pytest.mark.parametrize("ranks", [2, 3])
def test_unusual_tensors_are_communicated_too(ranks: int) -> None:
    run(collectives.unusual_tensors, ranks)


def test_what_is_not_defined_for_complex_tensors_is_refused() -> None:
    run(collectives.complex_tensors, 2)


def test_several_calls_are_made_as_one() -> None:
    run(collectives.several_as_one, 2)


@pytest.mark.parametrize("ranks", [2, 3])
def test_sparse_tensors_of_all_types_are_summed_and_those_that_differ_are_named(ranks: int) -> None:
    run(collectives.sparse_tensors, ranks)


def test_float8_is_moved_but_not_reduced() -> None:
    run(collectives.float8, 3)


def test_calls_are_under_way_together_and_waited_for_in_any_order() -> None:
    run(collectives.many_at_once, 4)


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_find_who_awaits_them(ranks: int) -> None:
    run(messages.in_any_order, ranks)


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_messages_of_several_threads_do_not_wait_for_each_other(links: str) -> None:
    run(messages.of_threads, 2, links)


def test_ddp_learns_what_one_process_learns() -> None:
    run(training.ddp, 2)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ddp_joins_ranks_that_have_no_more_batches(ranks: int) -> None:
    run(training.ddp_with_uneven_inputs, ranks)


def test_ddp_can_be_compiled() -> None:
    run(training.ddp_compiled, 2)


def test_ddp_compresses_by_power_sgd() -> None:
    run(training.ddp_with_power_sgd, 2)


@pytest.mark.parametrize("how", ["kept", "resharded", "mixed"])
def test_fsdp2_learns_what_one_process_learns(how: str) -> None:
    run(training.fsdp2, 2, how)


def test_tensors_are_sharded_and_layers_computed_in_parallel() -> None:
    run(training.tensor_parallel, 2)


@pytest.mark.parametrize(("ranks", "how"), [(2, "Schedule1F1B"), (3, "Schedule1F1B"), (2, "ScheduleGPipe")])
def test_a_pipeline_computes_what_one_process_computes(ranks: int, how: str) -> None:
    run(training.pipeline, ranks, how)


def test_a_distributed_checkpoint_is_loaded_again(tmp_path: Path) -> None:
    run(training.checkpoint, 2, str(tmp_path))


@pytest.mark.parametrize("how", ["call", "work", "future", "backward", "recv", "monitored_barrier"])
def test_a_killed_rank_is_named_in_whatever_the_others_wait_for(how: str, tmp_path: Path) -> None:
    run(failures.one_dies, 3, how, str(tmp_path), dies=2)


@pytest.mark.parametrize("how", ["recv", "recv from any", "send", "new_group", "call"])
def test_nobody_waits_for_a_rank_that_has_destroyed_its_group(how: str, tmp_path: Path) -> None:
    run(failures.one_has_left, 2, how, str(tmp_path))


@pytest.mark.parametrize("dead", [0, 2])
def test_a_new_group_does_not_wait_for_a_dead_rank(dead: int, tmp_path: Path) -> None:
    run(failures.one_dies_before_a_new_group, 3, dead, str(tmp_path), dies=dead)


@pytest.mark.parametrize("how", ["call", "work", "send"])
def test_a_rank_that_calls_something_else_is_named(how: str) -> None:
    run(failures.one_differs, 2, how)


@pytest.mark.parametrize(
    ("how", "ranks"),
    [("call", 2), ("call", 3), ("work", 2), ("recv", 2), ("call of a group", 2), ("another group", 2)],
)
def test_ranks_of_which_one_makes_a_group_and_another_something_else_are_named(how: str, ranks: int) -> None:
    run(failures.one_makes_a_group, ranks, how)


def test_a_rank_that_comes_late_to_a_new_group_is_waited_for() -> None:
    run(failures.one_comes_late_to_a_new_group, 2)


@pytest.mark.parametrize("how", ["shape", "count"])
def test_ddp_refuses_models_that_differ(how: str) -> None:
    run(failures.models_differ, 2, how)


def test_time_outs_of_groups_and_calls_are_kept() -> None:
    run(failures.one_is_late, 2)


def test_a_message_that_was_given_up_is_not_received() -> None:
    run(failures.one_gives_up, 2)


def test_nothing_is_left_of_ranks_that_end_without_a_word() -> None:
    before = shared_memory()
    done = _launch(UNISONO_RUN, "tests/torch/leaving.py")
    assert done.returncode == 0, done.stderr
    assert not re.search("unisono|nanobind|Error", done.stderr), done.stderr
    assert not {name for name in shared_memory() - before if "unisono" in name}


@pytest.mark.parametrize("launcher", [TORCHRUN, UNISONO_RUN], ids=["torchrun", "unisono run"])
def test_the_example_runs_under_launchers(launcher: list[str]) -> None:
    done = _launch(launcher, "examples/torch_ddp.py", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "all ranks have the same model" in done.stdout


def test_ranks_wait_in_silence_for_one_that_comes_late() -> None:
    done = _launch(TORCHRUN, "tests/torch/coming_late.py")
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\[W|timed out", done.stderr), done.stderr


@pytest.mark.parametrize("links", ["tcp", "staged", "shm"])
def test_the_variables_that_say_how_to_communicate_hold(links: str, tmp_path: Path) -> None:
    traces, dumps = tmp_path / "traces", tmp_path / "dumps"
    settings = {"UNISONO_LINKS": links, "UNISONO_TRACE": str(traces), "UNISONO_DUMP": str(dumps)}
    done = _launch(TORCHRUN, "tests/torch/differing.py", **settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("differed") == 2
    calls = [event for path in traces.iterdir() for event in json.loads(path.read_text())]
    assert any(event["name"].startswith("allreduce") for event in calls if event.get("ph") == "X")
    assert len(list(dumps.rglob("*.json"))) >= 2, "what each rank did, for unisono diagnose"


def _launch(launcher: list[str], *script: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    return subprocess.run([*launcher, *script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def test_unisono_does_not_import_torch_and_torch_finds_unisono() -> None:
    program = (
        "import sys, unisono, unisono.comm.communicator; assert 'torch' not in sys.modules; "
        "import torch.distributed as dist; assert 'unisono' in dist.Backend.backend_list; "
        "assert 'unisono.torch.group' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_where_torch_looks_for_no_entry_points_it_says_so_until_we_are_imported() -> None:
    program = (
        "import torch.distributed as dist\n"
        "def begin(): dist.init_process_group('unisono', store=dist.HashStore(), rank=0, world_size=1)\n"
        "try: begin()\n"
        "except Exception as error: assert 'unisono' in str(error).lower(), error\n"
        "else: raise SystemExit('it was known')\n"
        "import unisono.torch\n"
        "begin()\n"
        "assert dist.get_backend() == 'unisono'\n"
    )
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)


def test_a_torch_that_is_too_old_is_named() -> None:
    from unisono.torch.registration import require_torch

    require_torch("2.13.0+cpu")
    with pytest.raises(ConfigError, match=r"torch 2\.13 or newer, and this is torch 2\.9\.1"):
        require_torch("2.9.1")


def test_without_torch_the_import_says_what_to_install() -> None:
    program = (
        "import sys; sys.path = [each for each in sys.path if 'site-packages' not in each] + [SOURCES]\n"
        "sys.meta_path = [each for each in sys.meta_path if 'Editable' not in type(each).__name__]\n"
        "try: import unisono.torch\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    ).replace("SOURCES", repr(str(ROOT / "src")))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("ConfigError unisono.torch is a backend of torch, which is not installed")
    assert "pip install 'unisono[torch]'" in done.stdout


def test_torch_can_be_imported_where_it_is_too_old_for_us_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from unisono import autoload

    for name in ("unisono.torch", "unisono.torch.registration"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr("unisono.torch", raising=False)
    monkeypatch.setattr("torch.__version__", "2.9.1")
    autoload.register_with_torch()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the backend unisono needs torch 2.13 or newer, and this is torch 2.9.1" in caplog.text
