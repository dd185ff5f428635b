"""Inputs that were made once, kept in a file for the rounds that follow: the same bits, read in a
tenth of the time.

One file per graph: the bytes of its storages, one after another in the order of `Graph.inputs`. It
appears whole or not at all, and lives as long as the run; what cannot be kept is made again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_run.files import replacing
from bench_run.tensors.layout import empty_storage

if TYPE_CHECKING:
    from io import BufferedReader

    from bench_run.graph.model import Graph
    from bench_run.tensors.storage import Storage, Storages

SHARE = 4
"""A file takes at most this part (1/4) of the space that is left on its disk."""


def read_inputs(path: str, graph: Graph) -> dict[int, Storage] | None:
    """The inputs in fresh memory; None where the file is missing or not of this graph."""
    try:
        with open(path, "rb") as file:
            made = {tensor.uid: empty_storage(tensor) for tensor in graph.inputs}
            if os.fstat(file.fileno()).st_size != _size(made):
                return None
            whole = all(_fill(storage, file) for storage in made.values())
    except OSError:
        return None
    return made if whole else None


def store_inputs(path: str, graph: Graph, inputs: Storages) -> bool:
    """Write the inputs for those who come later; returns whether there was room for them."""
    storages = {tensor.uid: inputs[tensor.uid] for tensor in graph.inputs}
    target = Path(path)
    try:
        if _size(storages) > shutil.disk_usage(target.parent).free // SHARE:
            return False
        with replacing(target) as part, open(part, "wb") as file:
            for storage in storages.values():
                file.write(np.ascontiguousarray(storage).view(np.uint8).data)
    except OSError:  # the folder is gone, or the disk is full
        return False
    return True


def _size(storages: Storages) -> int:
    return sum(storage.nbytes for storage in storages.values())


def _fill(storage: Storage, file: BufferedReader) -> bool:
    return file.readinto(storage.view(np.uint8).data) == storage.nbytes
