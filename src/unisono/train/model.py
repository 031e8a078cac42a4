"""A torch model on every rank, whose gradients are averaged while backward goes on."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, UnisonoError
from ..uncompiled import leave_uncompiled
from .heap import keep_freed_memory
from .report import Report
from .storage import put
from .sync import GradientSync

if TYPE_CHECKING:
    from ..comm.communicator import Communicator
    from ..engine.engine import Engine

try:
    import torch
except ImportError as error:
    raise ConfigError(
        "DataParallel is for torch's models, and torch is not installed: pip install torch. GradientSync works without"
    ) from error

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    raise ConfigError(f"this is torch {torch.__version__}; DataParallel needs 2.1 or newer, for hooks on gradients")

from .state import Buffers, broadcast_state, described, facts_of, require_movable
from .structure import Structure

LEARNED = "unisono"


class DataParallel(torch.nn.Module):
    """Wraps a model. After ``loss.backward()``, the gradients of all parameters are averages over the ranks.

    ``param.grad`` lies in the buckets that are reduced. Parameters and buffers begin as those of rank 0. Without
    ``comm``, it joins the job that this process belongs to. ``broadcast_buffers``: each step of training begins with
    the buffers of rank 0. The other options are those of `GradientSync`.
    """

    def __init__(
        self,
        module: Any,
        comm: Communicator | None = None,
        *,
        broadcast_buffers: bool = True,
        engine: Engine | None = None,
        bucket_bytes: int | None = None,
        wire: Any = None,
        reproducible: bool = False,
        unused: str = "error",
    ) -> None:
        super().__init__()
        self._parameters_by_name = _trained(module)
        keep_freed_memory()
        frozen = {name: each for name, each in module.named_parameters() if not each.requires_grad}
        buffers = dict(module.named_buffers())
        require_movable(frozen, "parameter")
        require_movable(buffers, "buffer")
        others = {**described(facts_of(frozen), "frozen parameter"), **described(facts_of(buffers), "buffer")}
        self.sync = GradientSync(
            self._parameters_by_name,
            comm,
            engine=engine,
            bucket_bytes=bucket_bytes,
            wire=wire,
            reproducible=reproducible,
            unused=unused,
            reorder=True,
            dtype_of=partial(getattr, torch),
            others=others,
        )
        self.module, self.comm = module, self.sync.comm
        self._buffers_of_rank_0 = Buffers(module) if broadcast_buffers else None
        self.sync.have(self._buffers_of_rank_0.described() if self._buffers_of_rank_0 else {})
        self._trained = {parameter.name: self._parameters_by_name[parameter.name] for parameter in self.sync.parameters}
        self._is_view = {name: self.sync.place(name).dtype == each.dtype for name, each in self._trained.items()}
        self._structure = Structure(module)
        self._ends_with_backward = False
        self._arrangement = 0
        state = {**dict(module.named_parameters()), **buffers}
        broadcast_state(self.sync.own_comm, state, facts_of(state))
        self._register_state_dict_hook(_add_what_was_learned)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(_accumulated, weakref.ref(self), name))
            for name, parameter in self._trained.items()
        ]

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The model's own. The first one with gradients begins a step."""
        if self._ends_with_backward and torch._C._current_graph_task_id() < 0:
            self._abandon("an exception ended its backward pass")
        if torch.is_grad_enabled() and not self.sync.is_open:
            self._begin(None)
        return self.module(*inputs, **options)

    @contextmanager
    def step(self, samples: float | None = None) -> Iterator[None]:
        """One step: forward and backward. Gradients are weighted by the ranks' ``samples``.

        A rank with ``samples=0`` need not compute anything; it takes part in the averages all the same. What is raised
        in here is told to all ranks; who catches it may go on with the next step, as they may.
        """
        if self.sync.is_open and not self._ends_with_backward:
            raise ConfigError("a forward pass before step() had no backward pass; evaluate under torch.no_grad()")
        if self._ends_with_backward:
            self._abandon("an exception ended its backward pass")
        self._begin(samples)
        try:
            yield
        except BaseException as error:
            self._abandon(f"it raised {error!r}")
            raise
        if self.sync.is_open:
            self._end()

    def no_sync(self) -> AbstractContextManager[None]:
        """Backward in here accumulates gradients, which the next backward outside averages."""
        return self.sync.no_sync()

    def report(self) -> Report:
        """How the last steps went, who came last, and what limits them. ``print`` it."""
        return self.sync.report()

    def shares(self, total: int) -> list[int]:
        """How many of so many samples each rank should take, by the speeds measured in steps with ``samples=``."""
        return self.sync.shares(total)

    def close(self) -> None:
        """Give the model back: its gradients are no longer averaged."""
        for hook in self._hooks:
            hook.remove()
        self.sync.close()

    @property
    def learned(self) -> dict[str, Any]:
        """What would have to be learned again. ``state_dict()`` has it in its metadata, and not under a key of its own:
        so it is loaded into DDP, and DDP's is loaded here."""
        numbers, parameters = self.sync.order, self.sync.parameters
        return {"order": [parameters[number].name for number in numbers], "speeds": list(self.sync.speeds)}

    def _load_from_state_dict(self, state: Any, prefix: str, metadata: dict[str, Any], *arguments: Any) -> None:
        super()._load_from_state_dict(state, prefix, metadata, *arguments)
        if learned := metadata.get(LEARNED):
            self._take_over(**learned)

    def _take_over(self, order: list[str], speeds: list[float]) -> None:
        """What another run has learned."""
        numbers = {parameter.name: number for number, parameter in enumerate(self.sync.parameters)}
        self.sync.speeds = speeds
        known = [numbers[name] for name in order if name in numbers]
        if known != self.sync.order:
            self.sync.arrange(known)
            self._follow_places()

    def __getstate__(self) -> Any:
        raise ConfigError(
            "a DataParallel holds connections, and cannot be copied or saved; copy model.module, and save "
            "model.state_dict()"
        )

    def _begin(self, samples: float | None) -> None:
        if difference := self._structure.difference():
            self.sync.abandon(f"its model has changed, {difference}")
            raise ConfigError(
                f"the model has changed since it was wrapped: {difference}. Wrap it when it is complete; to train "
                "other parameters, close() this DataParallel and wrap the model again, on all ranks"
            )
        if buffers := self._buffers_of_rank_0:
            if buffers.have_changed():
                self.sync.have(buffers.described())
            if self.module.training:
                buffers.broadcast(self.sync.own_comm)
        self.sync.begin(samples)

    def _abandon(self, why: str) -> None:
        """The others need not wait for the step under way."""
        self._ends_with_backward = False
        if self.sync.is_open:
            self.sync.abandon(why)

    def _accumulated(self, name: str, parameter: Any) -> None:
        """Autograd has added to ``parameter.grad``, for the last time in this backward."""
        try:
            self._move_in(name, parameter)
        except Exception as error:
            self._abandon(f"it raised {error!r}")
            raise
        if self.sync.accumulates:
            self.sync.hold(name)
            return
        if not self._ends_with_backward:
            self._ends_with_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end)
        try:
            self.sync.give(name, complete=True)
        except ConfigError as error:
            self._abandon(f"it raised {error!r}")
            raise
        except UnisonoError:  # which all ranks raise
            self._ends_with_backward = False
            self.sync.forget()
            raise

    def _move_in(self, name: str, parameter: Any) -> None:
        """To where it is reduced. Autograd made a tensor of its own if there was no gradient before."""
        gradient, place = parameter.grad, self.sync.place(name)
        if gradient.is_sparse:
            parameter.grad = gradient = gradient.to_dense()
        if gradient.data_ptr() == place.data_ptr() and self._is_view[name]:
            return
        put(place, gradient, add=False)
        if self._is_view[name]:
            parameter.grad = place

    def _end(self) -> None:
        """After backward, which may have kept its graph: all that has come is averaged."""
        self._ends_with_backward = False
        with torch.no_grad():
            self._average()

    def _average(self) -> None:
        missing = [name for name in self._trained if not self.sync.is_ready(name)]
        for name in missing:
            if self._trained[name].grad is not None:  # of an earlier backward
                self._move_in(name, self._trained[name])
                self.sync.hold(name, used=False)
        self.sync.wait()
        if self._buffers_of_rank_0:
            self._buffers_of_rank_0.agree()
        if self.sync.arrangement != self._arrangement:
            self._follow_places()
        self._take_out(missing)

    def _take_out(self, missing: list[str]) -> None:
        """Gradients that other ranks had, and those that were reduced as another type."""
        nobodys = set(self.sync.unused_everywhere)
        for name in missing:
            parameter = self._trained[name]
            if parameter.grad is None and name not in nobodys:
                place = self.sync.place(name)
                parameter.grad = place if self._is_view[name] else place.to(parameter.dtype)
        for name, is_view in self._is_view.items():
            if not is_view and self._trained[name].grad is not None:
                self._trained[name].grad.copy_(self.sync.place(name))

    def _follow_places(self) -> None:
        self._arrangement = self.sync.arrangement
        for name, parameter in self._trained.items():
            if parameter.grad is not None and self._is_view[name]:
                parameter.grad = self.sync.place(name)


leave_uncompiled((DataParallel._begin, DataParallel._abandon, DataParallel._accumulated, DataParallel._end))


def _accumulated(wrapper: weakref.ref[DataParallel], name: str, parameter: Any) -> None:
    """Torch keeps hooks where no garbage collector looks: one that held the wrapper would keep it forever."""
    if model := wrapper():
        with torch.no_grad():
            model._accumulated(name, parameter)


def _add_what_was_learned(model: DataParallel, state: Any, prefix: str, metadata: dict[str, Any]) -> None:
    """Torch's hook for the state of one module; it keeps the metadata with all of them."""
    metadata[LEARNED] = model.learned


def _trained(module: Any) -> dict[str, Any]:
    """The parameters that get gradients, by all of their names."""
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"DataParallel wraps a torch.nn.Module, not a {type(module).__name__}")
    named = dict(module.named_parameters(remove_duplicate=False))
    for name, parameter in named.items():
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            raise ConfigError(f"parameter {name} has no shape yet: make a forward pass before wrapping the model")
        if parameter.device.type != "cpu":
            raise ConfigError(f"parameter {name} is on device {parameter.device}; unisono averages on the CPU")
    trained = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    if not trained:
        raise ConfigError(
            f"there is no parameter with requires_grad=True in this {type(module).__name__}, so that it needs no "
            "DataParallel"
        )
    return trained
