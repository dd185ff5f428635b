"""Arrays in safetensors files, by name: every data type bit for bit, bfloat16 and fp8 included."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from bench_schema.packing import read_regular

from bench_run.errors import GraphError, OutputError
from bench_run.files import replacing
from bench_run.graph.dtypes import DTYPES, array_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Array = npt.NDArray[Any]

STORED_AS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int8": "I8",
    "uint8": "U8",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "float8_e4m3fnuz": "U8",
    "float8_e5m2fnuz": "U8",
    "float8_e8m0fnu": "U8",
}
"""Array type → type in the file. What readers of the format do not all know is stored as bytes."""


def write_tensors(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> Path:
    """Write the file, all or nothing; the same arrays give the same bytes. Raises `OutputError`.

    The format: length of the header in 8 bytes, little endian; the header in JSON, padded with
    blanks to a multiple of 8; the arrays' bytes, C order. Written here because the library's
    writing interface is not the same in all its versions; it reads what is written.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        kind = STORED_AS[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return write_bytes(path, len(text).to_bytes(8, "little"), text, *map(raw, arrays.values()))


def raw(array: Array) -> memoryview:
    """Return the bytes of a C-contiguous array, not copied."""
    return array.reshape(-1).view(np.uint8).data


def write_bytes(path: Path, *parts: bytes | memoryview) -> Path:
    """Write a file by way of a temporary one beside it; raises `OutputError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part, part.open("wb") as file:
            file.writelines(parts)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
    return path


def read_tensors(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return each name with type in the file, shape and bytes. Raises `GraphError` for anything
    unreadable."""
    import safetensors

    try:
        entries = safetensors.deserialize(read_regular(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise GraphError(str(path), error.strerror or str(error)) from None
    except safetensors.SafetensorError as error:
        raise GraphError(str(path), f"not a complete safetensors file: {error}") from None
    return {
        name: (entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for name, entry in entries
    }


def first_cut(path: Path) -> str | None:
    """Return the name of the first array with missing bytes; None if the file has all, or its
    header is unreadable."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, path.stat().st_size)))
        room = path.stat().st_size - 8 - length
        ends = {n: e["data_offsets"][1] for n, e in header.items() if n != "__metadata__"}
        return min((n for n in ends if ends[n] > room), key=ends.__getitem__, default=None)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def type_in_file(data_type: str) -> str:
    """Return the name of a tensor's data type in the file."""
    assert DTYPES[data_type].array_type is not None
    return STORED_AS[array_type(data_type).name]


def from_bytes(content: bytes, data_type: str) -> Array:
    """Return a storage with memory of its own from the bytes of one."""
    return np.frombuffer(content, np.uint8).copy().view(array_type(data_type))
