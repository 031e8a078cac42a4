"""Pictures of a simulation: who was busy when, and which links were."""

from .heat import draw_heat
from .spacetime import draw_flights

__all__ = ["draw_flights", "draw_heat"]
