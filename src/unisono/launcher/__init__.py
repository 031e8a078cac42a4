"""Starts ranks, shows what they print, and leaves none behind: ``unisono run`` and ``unisono.launch()``."""
