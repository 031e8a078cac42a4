"""What the native module was built from, where there is one."""


def build_info() -> dict[str, str | int | list[str]] | None:
    """Describe the native module; None where only the pure part of unisono is installed."""
    try:
        from unisono._native import build_info
    except ModuleNotFoundError:  # one that is there and fails to load raises its ImportError
        return None
    return build_info()
