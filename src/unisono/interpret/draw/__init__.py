"""Pictures of any schedule: who holds what before, after and in every round, and who is busy when."""

from .page import draw_svg
from .spacetime import draw_spacetime
from .text import draw_spacetime_text, draw_text

__all__ = ["draw_spacetime", "draw_spacetime_text", "draw_svg", "draw_text"]
