"""Jobs with parameter servers, as a person would start them."""

import os
import subprocess
import sys
from pathlib import Path

UNISONO = str(Path(sys.executable).with_name("unisono"))
HERE = Path(__file__).parent


def run_job(
    script: str,
    *arguments: object,
    workers: int = 3,
    servers: int = 2,
    threads: int = 1,
    keep_going: bool = False,
    timeout: float = 200,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """A script of this folder as the workers of a job."""
    options = ["-n", str(workers), "--servers", str(servers), "--server-threads", str(threads), "--grace", "30"]
    return subprocess.run(
        [UNISONO, "run", *options, *["--keep-going"] * keep_going, HERE / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | environment,
    )


def succeed(*arguments: object, **options: object) -> str:
    """What a job printed that has to succeed."""
    run = run_job(*arguments, **options)  # type: ignore[arg-type]
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
