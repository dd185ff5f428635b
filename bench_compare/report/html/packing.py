"""How a block of details travels: JSON, and beside it small integers as bytes; both compressed.

The integers are noise, in which a search for repetitions finds nothing: they are only coded by how
often each byte occurs, which takes a fraction of the time and less room than their digits would.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.report.html.sampling import Ints

LEVEL = 1
"""Of zlib for JSON: level 3 takes half as long again for 5 % less."""
LONGEST = 8
"""Bytes of an integer."""


def packed(tree: Any, numbers: Sequence[Ints]) -> str:
    """Two texts of base64 with a space between them: the JSON, and the matrices one after another
    as `planes`."""
    text = orjson.dumps(tree, option=orjson.OPT_SERIALIZE_NUMPY)
    coder = zlib.compressobj(LEVEL, strategy=zlib.Z_RLE)
    coded = coder.compress(planes(numbers)) + coder.flush()
    return b" ".join(map(base64.b64encode, (zlib.compress(text, LEVEL), coded))).decode("ascii")


def planes(numbers: Sequence[Ints]) -> bytes:
    """Integers from 0 on: first the lowest byte of each, then the second of each, as many as the
    largest has. High bytes are nearly all 0, and stand together."""
    if not numbers:
        return b""
    flat = np.concatenate([matrix.ravel() for matrix in numbers]).astype("<u8")
    width = -(-int(flat.max(initial=0)).bit_length() // LONGEST)
    return flat.view(np.uint8).reshape(-1, LONGEST).T[:width].tobytes()
