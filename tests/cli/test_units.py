"""Quantities are read as people write them, and written as people read them."""

import pytest

from unisono.cli.units import format_bytes, format_seconds, parse_bandwidth, parse_bytes, parse_seconds
from unisono.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), ("64MiB", 64 << 20), ("1GB", 10**9), ("1.5 KiB", 1536), ("2kB", 2000), ("1e3B", 1000), ("0", 0)],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


def test_a_size_that_nothing_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="the nearest is 1024TiB"):
        parse_bytes("9999999999999GiB")
    assert parse_bytes("1024TiB") == 1 << 50


@pytest.mark.parametrize(("text", "seconds"), [("30us", 30e-6), ("30µs", 30e-6), ("1.5 ms", 1.5e-3), ("0.1ns", 1e-10)])
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10Gbit", 1.25e9),
        ("10Gbit/s", 1.25e9),
        ("10Gbps", 1.25e9),
        ("1GB/s", 1e9),
        ("1GiB/s", 2**30),
        ("10gbit", 1.25e9),
    ],
)
def test_bandwidths(text: str, rate: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (64 << 20, "64 MiB"), (3.5 * 2**40, "3.5 TiB")]
)
def test_bytes_are_written_in_powers_of_1024(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ns"), (2.5e-9, "2.5 ns"), (30e-6, "30.000 µs"), (0.0123, "12.300 ms"), (3600, "3,600 s")],
)
def test_times_are_written_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
