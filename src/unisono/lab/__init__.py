"""Several hosts on one machine: namespaces joined by a bridge and token buckets, for ``unisono lab`` and for tests."""

from .lab import Lab as Lab
