"""A part of the suite that torch ships; `make test-torch` runs all of it, beside gloo."""

from importlib.util import find_spec

import pytest
from tests.torch.suite import NOT_OURS, run

PART = [
    "test_DistributedDataParallelCPU",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather_coalesced_full_group",
    "test_all_gather_object_subgroup",
    "test_all_reduce_coalesced_full_group_max",
    "test_all_reduce_full_group_product",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_barrier_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_broadcast_full_group",
    "test_ddp_create_graph",
    "test_destroy_group",
    "test_gather_full_group",
    "test_get_future",
    "test_irecv",
    "test_reduce_full_group_min",
    "test_scatter_object_list",
    "test_send_recv_any_source",
    "test_send_recv_with_tag",
    "test_sparse_all_reduce_sum",
    "test_grads_same_across_ranks_with_no_sync",
]


@pytest.mark.skipif(
    not (find_spec("torch") and find_spec("expecttest")), reason="torch and expecttest are not installed"
)
def test_a_part_of_torchs_own_suite_passes() -> None:
    outcomes = run("unisono", 3, PART)
    assert list(outcomes) == PART
    assert {name: why for name, (outcome, why) in outcomes.items() if outcome != "passed"} == {}


def test_few_tests_of_torchs_are_not_ours() -> None:
    assert len(NOT_OURS) <= 5
    assert all(NOT_OURS.values())
