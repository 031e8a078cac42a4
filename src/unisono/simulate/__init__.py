"""What a schedule would take on machines that are not here: topologies, shared links, stragglers, failures."""

from .outcome import Outcome
from .simulation import simulate
from .topologies import Topology, topology

__all__ = ["Outcome", "Topology", "simulate", "topology"]
