"""How far training scales: time per step, efficiency and cost over the number of hosts, before any is bought."""

from .forecast import Plan, plan
from .job import Job

__all__ = ["Job", "Plan", "plan"]
