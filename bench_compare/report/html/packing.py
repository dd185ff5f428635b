"""How a block of details travels: JSON, and beside it numbers as bytes; all compressed.

Integers of samples are noise, in which a search for repetitions finds nothing: they are only coded
by how often each byte occurs, which takes a fraction of the time and less room than their digits
would. Other numbers repeat, so they are searched, and take half of the room of their digits.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from bench_compare.report.html.sampling import Ints

LEVEL = 1
"""Of zlib for JSON: level 3 takes half as long again for 5 % less."""
BITS = 8
"""Of a byte."""


def packed(tree: Any, integers: Sequence[Ints], floats: Sequence[npt.NDArray[np.float32]]) -> str:
    """Three texts of base64 with spaces between them: the JSON, the integers one matrix after
    another as `planes`, and the floats likewise as `float_planes`."""
    text = orjson.dumps(tree, option=orjson.OPT_SERIALIZE_NUMPY)
    coder = zlib.compressobj(LEVEL, strategy=zlib.Z_RLE)
    coded = coder.compress(planes(integers)) + coder.flush()
    parts = (zlib.compress(text, LEVEL), coded, zlib.compress(float_planes(floats), LEVEL))
    return b" ".join(map(base64.b64encode, parts)).decode("ascii")


def planes(numbers: Sequence[Ints]) -> bytes:
    """Integers from 0 on: first the lowest byte of each, then the second of each, as many as the
    largest has. High bytes are nearly all 0, and stand together."""
    if not numbers:
        return b""
    flat = np.concatenate([matrix.ravel() for matrix in numbers])
    flat = flat.astype(f"<u{flat.itemsize}", copy=False)
    width = -(-int(flat.max(initial=0)).bit_length() // BITS)
    return flat.view(np.uint8).reshape(-1, flat.itemsize).T[:width].tobytes()


def float_planes(matrices: Sequence[npt.NDArray[np.float32]]) -> bytes:
    """First the lowest byte of each number, at last the highest of each: those are often alike."""
    if not matrices:
        return b""
    flat = np.concatenate([one.ravel() for one in matrices]).astype("<f4", copy=False)
    return flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()
