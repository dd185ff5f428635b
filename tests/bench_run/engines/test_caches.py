from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench_run.engines.base import EngineOptions
from bench_run.engines.caches import NVIDIA, cache_environment

KILLED = """
import os
from bench_run.engines.base import EngineOptions
from bench_run.engines.caches import NVIDIA, cache_environment
print(*cache_environment(EngineOptions(), NVIDIA).values(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_caches_of_a_killed_run_go_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert (left.is_dir(), -9) == (True, done.returncode)
    (own,) = cache_environment(EngineOptions(), NVIDIA).values()
    assert (False, True) == (left.exists(), Path(own).is_dir())
