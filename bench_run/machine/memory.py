"""Memory of the host that a process may still take: what the system has free, within the limits of
its control groups and of its own. And what ends first where memory ends all the same: a worker.

Two things make it a worker. Its score for the kernel's killer is raised, which every process may
do and which costs nothing. And on a processor its data may grow by what is free when it begins with
a case: then an allocation fails, in words, before the kernel has to kill. The limit is RLIMIT_DATA,
which counts private memory that can be written. RLIMIT_AS would count what is only reserved or
mapped as well, which is terabytes with CUDA; a control group of its own needs rights that few users
have. Libraries of devices reserve and pin in ways of their own, and are left without a limit.
"""

from __future__ import annotations

import os
import re
import resource
from contextlib import suppress
from functools import cache
from pathlib import Path

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
NONE_V1_BYTES = 1 << 60
"""Values from here on mean "no limit" in version 1."""
LIMITS = ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData"))
"""Limits of each process, and what it has of it at its start, about as much as this one."""


def free_host_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Return the least of what system, groups and limits leave."""
    left = [_left_in_system(proc), *_left_in_groups(proc, cgroup)]
    for limit, field in LIMITS:
        soft, _ = resource.getrlimit(limit)
        used = _kilobytes(proc / "self/status", field)
        if soft != resource.RLIM_INFINITY and used is not None:
            left.append(soft - used)
    return max(0, min(left))


def _left_in_system(proc: Path) -> int:
    available = _kilobytes(proc / "meminfo", "MemAvailable")
    if available is not None:
        return available
    import psutil  # another system

    return int(psutil.virtual_memory().available)


def _kilobytes(file: Path, field: str) -> int | None:
    """Return the number of bytes in a line such as ``VmData: 1024 kB``; None if the line is
    missing."""
    try:
        found = re.search(rf"^{field}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else 1024 * int(found[1])


def _left_in_groups(proc: Path, cgroup: Path) -> list[int]:
    """Return the free memory of this process's group and every one above it. File pages of a group
    can be reclaimed and count as free."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, files, pages = cgroup, ("memory.max", "memory.current"), "inactive_file"
        elif "memory" in controllers.split(","):
            root = cgroup / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            pages = "total_inactive_file"
        else:
            continue
        group = root / path.strip("/")
        # In a container the path may be the host's, and its own group the root.
        for folder in {group, *group.parents, root}:
            if folder.is_relative_to(root):
                left += _left_in(folder, files, pages)
    return left


def _left_in(folder: Path, files: tuple[str, str], pages: str) -> list[int]:
    try:
        limit, used = ((folder / name).read_text().strip() for name in files)
        statistics = (folder / "memory.stat").read_text()
    except OSError:
        return []
    if not limit.isdecimal() or int(limit) >= NONE_V1_BYTES:
        return []
    given_back = re.search(rf"^{pages} (\d+)$", statistics, re.MULTILINE)
    return [int(limit) - int(used) + (0 if given_back is None else int(given_back[1]))]


VICTIM = 800
"""Added to a worker's share of memory, in thousandths, when the kernel chooses whom to kill."""
THREAD_BYTES = 64 << 20
"""Memory that a library's thread may reserve: a stack, an arena, buffers."""


def become_victim() -> None:
    """Make the kernel kill this process and its children first when memory runs out."""
    score = PROC / "self/oom_score_adj"
    with suppress(OSError, ValueError):
        score.write_text(str(max(VICTIM, int(score.read_text()))))


def limit_own_memory() -> None:
    """Limit the growth of this process's data to the free memory, plus that which threads only
    reserve. A lower limit of the user stays."""
    has = _kilobytes(PROC / "self/status", "VmData")
    if has is None:
        return
    given, hard = _given_limit()
    most = has + _left_for_data() + THREAD_BYTES * (os.cpu_count() or 1)
    ends = [end for end in (most, given, hard) if end != resource.RLIM_INFINITY]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(ends), hard))


@cache
def _given_limit() -> tuple[int, int]:
    """Return the limit with which this process started."""
    return resource.getrlimit(resource.RLIMIT_DATA)


def _left_for_data() -> int:
    return min([_left_in_system(PROC), *_left_in_groups(PROC, CGROUP)])
