"""A rank that measures with little effort and keeps the model in the cache, as `unisono tune` does."""

from unisono.cli import tune
from unisono.comm import calibrate

calibrate.SIZES = {"memory": (64, 4096), "tcp": (64, 4096)}
calibrate.DTYPES = ("float32",)
tune._measure_these(None)
