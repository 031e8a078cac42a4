"""What torch.compile leaves as it is."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType


def leave_uncompiled(functions: Iterable[object]) -> None:
    """Neither these nor what they call: a compiled program that comes to them calls them like any other.

    It is what ``torch.compiler.disable`` does, which would import all of the compiler for it.
    """
    own = [function for function in functions if isinstance(function, FunctionType)]
    for function in own:
        function.__dict__["_torchdynamo_disable"] = True  # where the compiler would look into who calls it
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameAction.SKIP
        strategy = eval_frame._FrameExecStrategy(skip, skip)
    except (ImportError, AttributeError):  # another torch, which has other names for it
        return
    for function in own:  # where it would look at who is called, as by C++
        eval_frame.set_code_exec_strategy(function.__code__, strategy)
