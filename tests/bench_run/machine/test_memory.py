"""What a process may still take of the host's memory, and that a worker is what ends first."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bench_run.machine.memory import VICTIM, free_host_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from Linux' /proc")
MIB = 1 << 20
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


@pytest.fixture
def host(tmp_path):
    """Writes a system with 8,000 MiB free, groups within it; what is then free."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {8000 * 1024} kB\n")

    def free(line, groups, names):
        (proc / "self" / "cgroup").write_text(line)
        for path, (limit, used, pages) in groups.items():
            folder = cgroup / path
            folder.mkdir(parents=True, exist_ok=True)
            (folder / names[0]).write_text(f"{limit}\n")
            (folder / names[1]).write_text(f"{used}\n")
            (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {pages}\n")
        return free_host_bytes(proc, cgroup)

    return free


def test_the_system_says_what_is_available(host):
    assert 8000 * MIB == host("0::/\n", {}, V2)


def test_a_group_leaves_its_limit_less_what_it_has_beside_file_pages(host):
    groups = {"a/b": (1000 * MIB, 700 * MIB, 200 * MIB)}
    assert 500 * MIB == host("0::/a/b\n", groups, V2)


def test_a_group_above_may_be_nearer_to_its_limit(host):
    groups = {"a/b": ("max", 1, 0), "a": (900 * MIB, 800 * MIB, 0)}
    assert 100 * MIB == host("0::/a/b\n", groups, V2)


def test_version_1_has_a_tree_of_its_own(host):
    groups = {"memory/a": (600 * MIB, 200 * MIB, 0), "memory": (2**63 - 4096, 1, 0)}
    assert 400 * MIB == host("5:cpu:/x\n4:memory:/a\n0::/\n", groups, V1)


def test_a_container_sees_its_group_at_the_root(host):
    groups = {"": (600 * MIB, 100 * MIB, 0)}
    assert 500 * MIB == host("0::/docker/abc\n", groups, V2)


def test_a_group_past_its_limit_leaves_nothing(host):
    assert 0 == host("0::/a\n", {"a": (100, 200, 0)}, V2)


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_of_the_process_counts(limit):
    program = f"""
import resource
from bench_run.machine.memory import free_host_bytes
resource.setrlimit(resource.{limit}, (700 << 20, resource.RLIM_INFINITY))
print(free_host_bytes())
"""
    assert 300 * MIB < int(output_of(program)) < 700 * MIB


def test_a_worker_is_chosen_before_others():
    program = """
from pathlib import Path
from bench_run.machine.memory import become_victim
become_victim()
print(Path("/proc/self/oom_score_adj").read_text())
"""
    assert VICTIM <= int(output_of(program))


def test_an_allocation_fails_before_the_system_has_no_memory():
    program = """
import resource
from bench_run.machine import memory
memory._left_for_data = lambda: 64 << 20
memory.THREAD_BYTES = 0
memory.limit_own_memory()
fits = bytearray(32 << 20)
try:
    bytearray(128 << 20)
except MemoryError:
    print("refused")
memory._left_for_data = lambda: 512 << 20
memory.limit_own_memory()
print(len(bytearray(128 << 20)))
"""
    assert ["refused", str(128 * MIB)] == output_of(program).split()


def test_a_lower_limit_of_the_user_stays():
    program = """
import resource
from bench_run.machine.memory import limit_own_memory
resource.setrlimit(resource.RLIMIT_DATA, (600 << 20, 900 << 20))
limit_own_memory()
print(resource.getrlimit(resource.RLIMIT_DATA))
"""
    assert [600 * MIB, 900 * MIB] == [int(n) for n in re.findall(r"\d+", output_of(program))]


def output_of(program):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
