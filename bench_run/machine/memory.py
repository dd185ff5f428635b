"""Memory of the host that a new process may still take: what the system has free, within the
limits of this process's control groups and of its own."""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from pathlib import Path

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
NONE_V1_BYTES = 1 << 60
"""What stands for no limit in version 1 is as large, or larger."""
LIMITS = (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData"))
"""Limits of each process, and what it has of it at its start, about as much as this one."""


def free_host_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """The least of what system, groups and limits leave."""
    import psutil

    left = [psutil.virtual_memory().available, *_left_in_groups(proc, cgroup)]
    with suppress(OSError):
        status = (proc / "self/status").read_text()
        for name, field in LIMITS:
            soft, _ = resource.getrlimit(getattr(resource, name))
            used = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
            if soft != resource.RLIM_INFINITY and used is not None:
                left.append(soft - 1024 * int(used[1]))
    return max(0, min(left))


def _left_in_groups(proc: Path, cgroup: Path) -> list[int]:
    """Of this process's group and every one above it. File pages of a group can be given back and
    count as free."""
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
