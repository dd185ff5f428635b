"""What of a run's time on two GPUs is the schedule's: `two_gpus.py` on devices that only wait.

Usage:
  two_gpus_simulated.py [options]

Options:
  --scale=X   how much longer everything waits than on the GPUs: the run's own work on few cores
              weighs less then [default: 2]
  --cores=N   that a run takes the machine to have, for the number of its workers [default: 32]
  --cycles=N  whole runs of every kind, in turn [default: 1]
  --graphs=N  copies of the 19 graphs: 19 N in all [default: 1]
  --keep=DIR  where to leave the documents

19 graphs wait as long as they were seen to take with `cudnn` on two H200s, in building, copies,
first runs, measuring, cooling, and opening a device (`timed_engine.py`). Everything else is real:
workers, turns, locks, the order. Seconds are those of this machine: divide by the scale.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import two_gpus
from docopt import docopt
from timed_engine import FOLDER, ROWS, SCALE

HERE = Path(__file__).resolve().parent
SITE = """
import os
import sys
_real = os.sched_getaffinity
os.sched_getaffinity = lambda pid: set(range({cores})) if pid == 0 else _real(pid)
os.sched_setaffinity = lambda pid, cpus: None
if sys.orig_argv[1:3] == ["-m", "bench_run"]:
    from bench_run.runner import planning
    from bench_run.runner.parallel import trials
    planning.accelerator_count = lambda: 2
    trials.LIMIT_RATIO = trials.MOST_RATIO = float("inf")
"""
"""What each process takes for granted. What waits on a busy machine says nothing of other devices,
so no case is measured again for it."""


def install(folder, cores):
    """The engine as an installed distribution, and what processes take for granted."""
    info = folder / "timed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: timed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bench_run.engines]\ntimed = timed_engine\n")
    (folder / "sitecustomize.py").write_text(SITE.format(cores=cores))


def main():
    given = docopt(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        install(folder, int(given["--cores"]))
        specs = folder / "specs"
        count = len(ROWS) * int(given["--graphs"])
        specs.write_text("".join(f"relu: n={n} c=1 h=1 w=1\n" for n in range(1, count + 1)))
        paths = [scratch, str(HERE), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        os.environ.update(
            {SCALE: given["--scale"], FOLDER: scratch, "BENCH_RUN_LOCKS": str(folder / "locks")}
        )
        keep = given["--keep"] or str(folder / "documents")
        sys.argv[1:] = [
            "--engine",
            "timed",
            "--specs",
            str(specs),
            "--cycles",
            given["--cycles"],
            "--keep",
            keep,
        ]
        two_gpus.main()


if __name__ == "__main__":
    main()
