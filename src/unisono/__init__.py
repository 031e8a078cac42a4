"""The communication layer of distributed training.

A collective algorithm is a schedule: data that is proved correct, priced, drawn and run.
"""

__version__ = "0.1.0"
