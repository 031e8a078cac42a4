"""What a schedule would take on machines that are not here: topologies, shared links, stragglers, failures."""

from .chrome import chrome_trace
from .draw import draw_flights, draw_heat
from .in_network import simulate_in_network
from .outcome import Outcome
from .simulation import simulate
from .topologies import Topology, topology
from .work import Setting

__all__ = [
    "Outcome",
    "Setting",
    "Topology",
    "chrome_trace",
    "draw_flights",
    "draw_heat",
    "simulate",
    "simulate_in_network",
    "topology",
]
