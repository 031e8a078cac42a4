"""The communication layer of distributed training.

A collective algorithm is a schedule: data that is proved correct, priced, drawn and run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import server as server
    from . import train as train
    from .comm.call import premultiplied_sum as premultiplied_sum
    from .comm.communicator import Communicator as Communicator
    from .comm.start import init as init
    from .engine.engine import Engine as Engine
    from .engine.serial import SerialEngine as SerialEngine
    from .interpret.draw import draw_spacetime as draw_spacetime
    from .interpret.draw import draw_spacetime_text as draw_spacetime_text
    from .interpret.draw import draw_svg as draw_svg
    from .interpret.draw import draw_text as draw_text
    from .interpret.explain import explain as explain
    from .interpret.machine import Link as Link
    from .interpret.machine import Machine as Machine
    from .interpret.memory import extra_memory as extra_memory
    from .interpret.price import price as price
    from .interpret.register import register as register
    from .interpret.verify import verify as verify
    from .launcher.function import launch as launch
    from .schedule.catalog import algorithms as algorithms
    from .schedule.catalog import find as find

# Imported when first used, so that `import unisono` costs nothing.
_HOME = {
    "Communicator": "comm.communicator",
    "init": "comm.start",
    "premultiplied_sum": "comm.call",
    "Engine": "engine.engine",
    "Link": "interpret.machine",
    "Machine": "interpret.machine",
    "SerialEngine": "engine.serial",
    "algorithms": "schedule.catalog",
    "draw_spacetime": "interpret.draw",
    "draw_spacetime_text": "interpret.draw",
    "draw_svg": "interpret.draw",
    "draw_text": "interpret.draw",
    "explain": "interpret.explain",
    "extra_memory": "interpret.memory",
    "find": "schedule.catalog",
    "launch": "launcher.function",
    "price": "interpret.price",
    "register": "interpret.register",
    "verify": "interpret.verify",
}
_PARTS = ("server", "train")  # packages with names of their own
__all__ = ["__version__", *_HOME, *_PARTS]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'unisono' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
