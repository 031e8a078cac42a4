"""What tests of the launcher begin with."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Makes one that knows its rank."""

    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text("import os\nrank = int(os.environ['UNISONO_RANK'])\n" + text)
        return path

    return write
