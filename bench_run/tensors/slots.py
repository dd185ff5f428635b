"""Outputs in memory that several processes share: one slot for the outputs of each run.

The run makes the memory and hands out its path; a worker copies outputs into it, another process
compares them. After the slots a report follows, as JSON. Nothing of it is executed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import OutputError
from bench_run.graph.dtypes import array_type
from bench_run.tensors.layout import storage_size

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages

ALIGNMENT, PAGE_BYTES = 256, 4096


class SharedFile:
    """Memory without a name that other processes of this user open by a path."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for systems that have no such memory. Raises `OutputError`."""
        try:
            if hasattr(os, "memfd_create"):
                self._number = os.memfd_create("bench-run outputs", os.MFD_CLOEXEC)
                self.path = f"/proc/{os.getpid()}/fd/{self._number}"
            else:
                self._number, self.path = tempfile.mkstemp(dir=folder)
        except OSError as error:
            raise OutputError(f"no memory for outputs: {error.strerror}") from None

    def close(self) -> None:
        os.close(self._number)
        if not self.path.startswith("/proc/"):
            Path(self.path).unlink(missing_ok=True)


class Slots:
    """The slots of a graph's outputs in such a file."""

    def __init__(self, path: str, graph: Graph, count: int, *, write: bool) -> None:
        """Open the file. Raises `OutputError`."""
        self._sizes = {
            t.uid: (storage_size(t), np.dtype(array_type(t.data_type))) for t in graph.outputs
        }
        spans = (-(-size * kind.itemsize // ALIGNMENT) for size, kind in self._sizes.values())
        self._begins = list(accumulate((span * ALIGNMENT for span in spans), initial=0))
        self.count = count
        self._path, self._end = path, count * self._begins[-1]
        try:
            with open(path, "r+b" if write else "rb") as file:
                if write:
                    os.ftruncate(file.fileno(), self._end)
                access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
                self._memory = (
                    mmap.mmap(file.fileno(), self._end, access=access) if self._end else b""
                )
        except (OSError, ValueError) as error:
            raise OutputError(f"no memory for outputs: {error}") from None

    def slot(self, number: int) -> dict[int, np.ndarray]:
        """Return the storages of one slot by uid, which share its memory."""
        first = number * self._begins[-1]
        return {
            uid: np.frombuffer(self._memory, kind, size, first + begin)
            if size
            else np.empty(0, kind)
            for (uid, (size, kind)), begin in zip(self._sizes.items(), self._begins, strict=False)
        }

    def touch(self, number: int) -> None:
        """Take the memory of a slot from the system: a copy into pages that are in place takes a
        quarter of the time."""
        for storage in self.slot(number).values():
            storage.view(np.uint8)[::PAGE_BYTES] = 0

    def store(self, number: int, outputs: Storages) -> None:
        """Copy outputs, which fit their tensors, into a slot."""
        for uid, storage in self.slot(number).items():
            np.copyto(storage.view(np.uint8), np.ascontiguousarray(outputs[uid]).view(np.uint8))

    def write_report(self, report: bytes) -> None:
        """Write the report after the slots."""
        with open(self._path, "r+b") as file:
            file.seek(self._end)
            file.write(report)
            file.truncate()

    def read_report(self) -> bytes:
        with open(self._path, "rb") as file:
            file.seek(self._end)
            return file.read()
