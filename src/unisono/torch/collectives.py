"""The collectives of a process group, as calls of the communicator of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor
from torch._C import _distributed_c10d as c10d
from torch.distributed import ProcessGroup, Work

from ..comm.communicator import Communicator
from ..errors import ConfigError, DeadlineExceeded
from . import sparse
from .operators import operator
from .pages import Pages
from .tensors import apart, array, cargo, contiguous, joined, require_dense, to_fill
from .work import Completions, Done, Started, in_words_of_torch

UNSET = timedelta(0)
SMALL = 1 << 16
"""Bytes: tensors of this size on average are copied into one rather than sent one by one."""

Finish = Callable[[], None] | None


class Collectives(ProcessGroup):
    """What all ranks of a group call together."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self._completions = Completions()
        self._pages = Pages()

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _listed(tensors), opts or c10d.AllreduceOptions()
        if len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        if tensors[0].is_sparse:
            return self._reduce_sparse(tensors[0], opts)
        dense, finish = to_fill(tensors[0])
        self._pages.use(dense)
        x = array(dense)
        return self._make(opts, tensors, finish, "allreduce", x, operator(opts.reduceOp, dense), out=x)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        opts = opts or c10d.AllreduceCoalescedOptions()
        dense = [tensor for tensor in tensors if not tensor.is_sparse]
        require_dense(dense)
        alike = len(dense) == len(tensors) and len({tensor.dtype for tensor in tensors}) == 1
        if alike and sum(tensor.nbytes for tensor in tensors) <= SMALL * len(tensors):
            room, fill = apart(tensors)
            x = array(room.copy_(joined(tensors)))
            return self._make(opts, tensors, fill, "allreduce", x, operator(opts.reduceOp, room), out=x)
        return self._all([self.allreduce([tensor], _Later(opts)) for tensor in tensors], tensors, opts)

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _listed(tensors), opts or c10d.BroadcastOptions()
        tensor = only(tensors, "broadcast")
        dense, finish = to_fill(tensor)
        return self._make(opts, tensors, finish, "broadcast", cargo(dense), opts.rootRank)

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors, opts = _listed(tensors), opts or c10d.ReduceOptions()
        dense, finish = to_fill(only(tensors, "reduce"))
        x, root = array(dense), opts.rootRank
        out = {"out": x} if root == self.comm.rank else {}
        return self._make(opts, tensors, finish, "reduce", x, root, operator(opts.reduceOp, dense), **out)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or c10d.AllgatherOptions()
        outputs, source = _lists(outputs)[0], only(_listed(inputs), "allgather")
        self._require_one_each(outputs, "allgather")
        room, fill = apart(outputs)
        equal = all(each.numel() == source.numel() for each in outputs)
        call = "allgather" if equal else "allgatherv"
        return self._make(opts, outputs, fill, call, cargo(contiguous(source)), out=cargo(room))

    def all_gather_single(self, output: Tensor, source: Tensor, opts: Any = None) -> Work:
        opts = opts or c10d.AllgatherOptions()
        dense, finish = to_fill(output)
        return self._make(opts, [output], finish, "allgather", cargo(contiguous(source)), out=cargo(dense))

    def allgather_coalesced(self, outputs: Any, inputs: Sequence[Tensor], opts: Any = None) -> Work:
        """There is a list of outputs for each rank, as long as that of the inputs."""
        opts = opts or c10d.AllgatherOptions()
        self._require_one_each(outputs, "all_gather_coalesced")
        by_input = zip(zip(*outputs, strict=True), inputs, strict=True)
        works = [self.allgather([list(out)], [x], _Later(opts)) for out, x in by_input]
        return self._all(works, [each for out in outputs for each in out], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Sequence[Tensor], opts: Any = None) -> Work:
        opts = opts or c10d.AllgatherOptions()
        works = [self.all_gather_single(out, x, _Later(opts)) for out, x in zip(outputs, inputs, strict=True)]
        return self._all(works, outputs, opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or c10d.GatherOptions()
        source, root = only(_listed(inputs), "gather"), opts.rootRank
        x = cargo(contiguous(source))
        if root != self.comm.rank:
            return self._make(opts, [], None, "gather", x, root)
        outputs = _lists(outputs)[0]
        self._require_one_each(outputs, "gather")
        room, fill = apart(outputs)
        return self._make(opts, outputs, fill, "gather", x, root, out=cargo(room))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or c10d.ScatterOptions()
        output, root = only(_listed(outputs), "scatter"), opts.rootRank
        dense, finish = to_fill(output)
        x = None
        if root == self.comm.rank:
            inputs = _lists(inputs)[0]
            self._require_one_each(inputs, "scatter")
            x = cargo(joined(inputs))
        return self._make(opts, [output], finish, "scatter", x, root, out=cargo(dense))

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or c10d.ReduceScatterOptions()
        output, parts = only(_listed(outputs), "reduce_scatter"), _lists(inputs)[0]
        self._require_one_each(parts, "reduce_scatter")
        counts = [part.numel() for part in parts]
        dense, finish = to_fill(output)
        options = {} if len(set(counts)) == 1 else {"counts": counts}
        x, op = array(joined(parts)), operator(opts.reduceOp, output)
        return self._make(opts, [output], finish, "reduce_scatter", x, op, out=array(dense), **options)

    def reduce_scatter_single(self, output: Tensor, source: Tensor, opts: Any = None) -> Work:
        opts = opts or c10d.ReduceScatterOptions()
        dense, finish = to_fill(output)
        x, op = array(contiguous(source).view(-1)), operator(opts.reduceOp, output)
        return self._make(opts, [output], finish, "reduce_scatter", x, op, out=array(dense))

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Sequence[Tensor], opts: Any = None) -> Work:
        opts = opts or c10d.ReduceScatterOptions()
        works = [self.reduce_scatter_single(out, x, _Later(opts)) for out, x in zip(outputs, inputs, strict=True)]
        return self._all(works, outputs, opts)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        opts = opts or c10d.AllToAllOptions()
        self._require_one_each(outputs, "all_to_all")
        self._require_one_each(inputs, "all_to_all")
        room, fill = apart(outputs)
        return self._exchange(opts, outputs, fill, joined(inputs), room, [each.numel() for each in inputs])

    def all_to_all_single(
        self, output: Tensor, source: Tensor, output_splits: Sequence[int], splits: Sequence[int], opts: Any = None
    ) -> Work:
        opts = opts or c10d.AllToAllOptions()
        dense, finish = to_fill(output)
        counts, _ = self._counts(source, splits), self._counts(output, output_splits)
        rows = contiguous(source).view(-1)
        if not splits and not output_splits:
            return self._make(opts, [output], finish, "alltoall", cargo(rows), out=cargo(dense))
        return self._exchange(opts, [output], finish, rows, dense, counts)

    def barrier(self, opts: Any = None) -> Work:
        return self._make(opts or c10d.BarrierOptions(), [], None, "barrier")

    # The names that torch has had for them, or still has in C++

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _make(
        self, opts: Any, tensors: Sequence[Tensor], finish: Finish, call: str, *arguments: Any, **options: Any
    ) -> Work:
        """Make a call, or start it."""
        options |= _deadline(opts)
        if opts.asyncOp:
            handle = self.comm.start(call, *arguments, **options)
            return Started([handle], tensors, finish, self._completions)
        try:
            getattr(self.comm, call)(*arguments, **options)
        except DeadlineExceeded as error:
            raise in_words_of_torch(error) from None
        if finish:
            finish()
        return Done(tensors)

    def _all(self, works: Sequence[Any], tensors: Sequence[Tensor], opts: Any) -> Work:
        """Several that were started, as one."""
        together = Started.together(works, tensors, self._completions)
        if opts.asyncOp:
            return together
        together.wait()
        return Done(tensors)

    def _exchange(
        self,
        opts: Any,
        tensors: Sequence[Tensor],
        finish: Finish,
        source: Tensor,
        target: Tensor,
        counts: Sequence[int],
    ) -> Work:
        """Of parts that may be unequal on other ranks, though they happen to be equal on this one."""
        x, out = cargo(source), cargo(target)
        scale = len(x) // max(1, source.numel())  # complex numbers are two
        return self._make(opts, tensors, finish, "alltoallv", x, [count * scale for count in counts], out=out)

    def _counts(self, tensor: Tensor, splits: Sequence[int]) -> list[int]:
        """Elements for each rank."""
        if splits:
            row = tensor.numel() // max(1, tensor.shape[0])
            return [split * row for split in splits]
        if tensor.numel() % self.comm.size:
            raise ConfigError(
                f"a tensor of shape {tuple(tensor.shape)} cannot be cut into {self.comm.size} equal parts; give "
                "input_split_sizes and output_split_sizes"
            )
        return [tensor.numel() // self.comm.size] * self.comm.size

    def _reduce_sparse(self, tensor: Tensor, opts: Any) -> Work:
        handles, finish = sparse.start(self.comm, tensor, operator(opts.reduceOp, tensor), **_deadline(opts))
        work = Started(handles, [tensor], finish, self._completions)
        if not opts.asyncOp:
            work.wait()
        return work

    def _require_one_each(self, tensors: Sequence[Tensor], call: str) -> None:
        if len(tensors) != self.comm.size:
            raise ConfigError(f"{call} needs one tensor for each of {self.comm.size} ranks, not {len(tensors)}")


def _deadline(opts: Any) -> dict[str, float]:
    """What a call says itself of its time."""
    return {"deadline": opts.timeout.total_seconds()} if opts.timeout > UNSET else {}


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _lists(tensors: Any) -> list[list[Tensor]]:
    return [list(tensors)] if tensors and isinstance(tensors[0], Tensor) else list(tensors)


def only(tensors: Sequence[Tensor], call: str) -> Tensor:
    if len(tensors) != 1:
        raise ConfigError(f"{call} takes one tensor for each process, not {len(tensors)}")
    return tensors[0]


class _Later:
    """The same options, for a call that is one of several, which are waited for together."""

    asyncOp = True  # noqa: N815

    def __init__(self, opts: Any) -> None:
        self.timeout, self.reduceOp = opts.timeout, getattr(opts, "reduceOp", None)
