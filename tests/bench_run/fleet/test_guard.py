"""What Ray started for a run ends with it, however it ends: no Ray is needed to see that."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

DRIVER = """
import subprocess, sys, time
from pathlib import Path
from bench_run.fleet.guard import guarded

with guarded(Path(sys.argv[1])):
    with open(f"{sys.argv[1]}/session/agent.log", "w") as log:
        words = [sys.executable, "-c", "import time; time.sleep(100)"]
        agent = subprocess.Popen(words, start_new_session=True, stdout=log)
    print(agent.pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def driver(tmp_path):
    """A run whose agent is in a session of its own, the folder, and the agent."""
    folder = tmp_path / "bench-run-ray"
    (folder / "session").mkdir(parents=True)
    words = [sys.executable, "-c", DRIVER, str(folder)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process, folder, psutil.Process(int(process.stdout.readline()))
    process.kill()
    process.communicate()


def wait_until_gone(agent, folder):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not folder.exists() and not agent.is_running():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("killed", [True, False])
def test_no_agent_and_no_folder_outlive_the_run(driver, killed):
    process, folder, agent = driver
    assert agent.is_running()
    if killed:
        process.kill()
    else:
        process.stdin.write("\n")
        process.stdin.flush()
    process.wait()  # the agent is a child of the driver until then
    assert wait_until_gone(agent, folder)


def test_who_has_files_elsewhere_is_left_alone(driver, tmp_path):
    process, folder, agent = driver
    with open(f"{folder}.log", "w") as log:
        words = [sys.executable, "-c", "import time; time.sleep(100)"]
        other = subprocess.Popen(words, stdout=log)
    process.kill()
    process.wait()
    assert wait_until_gone(agent, folder)
    assert other.poll() is None
    other.kill()
    other.wait()
