"""The lecture's spelling: ``from unisono import communicator; comm = communicator.create()``."""

from .comm.start import init as create

__all__ = ["create"]
