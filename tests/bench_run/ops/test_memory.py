"""Memory of a case: in the document, with -v, in the table and in CSV."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

import numpy as np
import pytest

from bench_run.measure.memory import ProcessPeak

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells peaks on Linux only")
ADD = "add: dims=1024x1024"
BUFFERS = 3 * 1024 * 1024 * 4
QUICK = ("--rounds", "1", "--iters", "1", "--warmup", "0", "--engine", "numpy")


PROGRAM = """
import numpy as np
from bench_run.measure.memory import ProcessPeak
peak = ProcessPeak()
block = np.ones(8_000_000)
del block
print(peak.taken_bytes())
"""


@LINUX
def test_the_peak_of_a_stretch_of_work_is_what_it_took(root):
    """In a process of its own: one that lived longer may have such a block to spare."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=root
    )
    assert 63e6 < int(done.stdout) < 68e6


@LINUX
def test_memory_taken_before_does_not_count():
    block = np.ones(4_000_000)
    peak = ProcessPeak()
    assert peak.taken_bytes() < 4e6 < block.nbytes


@pytest.mark.long
@LINUX
def test_the_document_has_peak_workspace_and_buffers(run_quickly):
    _, document = run_quickly("--op", ADD, "--engine", "numpy")
    memory = document.cases[0].memory
    assert (None, BUFFERS) == (memory.workspace_bytes, memory.buffer_bytes)
    assert BUFFERS <= memory.peak_bytes < 1.5 * BUFFERS


@pytest.mark.long
@LINUX
def test_tables_and_csv_show_the_peak(bench_run_command, tmp_path):
    done = bench_run_command("--op", ADD, *QUICK, "-v", "--markdown", "m.md", "--csv", "c.csv")
    (peak,) = re.findall(r"memory: peak ([\d.]+) MiB", done.stdout)
    # The three buffers, and the sum before it is copied; the allocator's pages come and go.
    assert float(peak) == pytest.approx(16, abs=0.5)
    assert "buffer 12 MiB" in done.stdout
    (row,) = csv.DictReader((tmp_path / "c.csv").open())
    assert str(BUFFERS) == row["buffer_bytes"]
