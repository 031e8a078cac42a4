"""What it takes to start: `import unisono`, and a job of 64 ranks that meet, are linked, wait for each other and end.

python benchmarks/startup.py [RANKS [REPETITIONS]]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

JOB = "import unisono\nwith unisono.init() as comm:\n    comm.barrier()\n"


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command: list[str], repetitions: int, environment: dict[str, str]) -> str:
    """Processor time says more than wall time where others use the machine too."""
    walls, processors = [], []
    for _ in range(repetitions + 1):
        wall, processor = time.monotonic(), processor_seconds()
        subprocess.run(command, check=True, env=environment)
        walls.append(time.monotonic() - wall)
        processors.append(processor_seconds() - processor)
    # Without the first time, when bytecode is written and files are read.
    return f"{median(walls[1:]):6.2f} s, {median(processors[1:]):6.2f} s of processors"


def main(ranks: int = 64, repetitions: int = 3) -> None:
    run = [sys.executable, "-c", "from unisono.cli.main import main; main()", "run", "-n", str(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        # As if installed: bytecode is there, also where the user does not let it be written.
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        script = Path(folder, "job.py")
        script.write_text(JOB)
        empty = Path(folder, "empty.py")
        empty.write_text("")
        for what, command in {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import unisono": [sys.executable, "-c", "import unisono"],
            "unisono.init": [sys.executable, "-c", "import unisono; unisono.init().close()"],
            f"{ranks} empty processes": [*run, str(empty)],
            f"{ranks} ranks": [*run, str(script)],
        }.items():
            print(f"{what:24} {measure(command, repetitions, environment)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
