"""Cache states, and how much a stream touches before each iteration for them.

``hot``: nothing. ``cold``: so much that no cache keeps anything. ``pass``: as much as a pass of the
pipeline touches, so that a graph finds the caches as in a network that runs over and over.
``rotate`` and ``weights-cold`` are the engine's work, which cycles through copies of its buffers.
"""

from __future__ import annotations

CACHES = ("hot", "cold", "rotate", "weights-cold", "pass")


def flushed_bytes(cache: str, everything: int, pass_bytes: int | None) -> int | None:
    """None: nothing is touched. `everything`: so much that no cache keeps anything."""
    if cache == "cold":
        return everything
    if cache == "pass" and pass_bytes is not None:
        return max(16, min(pass_bytes, everything))
    return None
