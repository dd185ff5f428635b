"""Which keys a query sees: masks as bounds on a diagonal.

With i the query's and j the key's position in their sequence, off = 0 (top_left) or keys −
queries (bottom_right): masked where right bound ≥ 0 and j ≥ i + 1 + off + right, or left bound ≥ 0
and j < i + off − left. A bound of −1 is none. `causal_mask` is right bound 0 at top_left,
`causal_mask_bottom_right` the same at bottom_right.
Source: hipDNN's SDPA nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, refusal

if TYPE_CHECKING:
    from bench_run.graph.model import Node


@dataclass(frozen=True)
class Mask:
    left: int | None
    right: int | None
    bottom_right: bool

    def keys(self, rows: slice, queries: int, keys: int) -> slice:
        """The range of keys that any of these rows may see."""
        off = keys - queries if self.bottom_right else 0
        low = 0 if self.left is None else rows.start + off - self.left
        high = keys if self.right is None else rows.stop + off + self.right
        low, high = (min(max(0, bound), keys) for bound in (low, high))
        return slice(low, max(low, high))

    def hidden(self, rows: slice, seen: slice, queries: int, keys: int) -> Array | None:
        """True where a row of `rows` must not see a key of `seen`; None where all is seen."""
        if self.left is None and self.right is None:
            return None
        off = keys - queries if self.bottom_right else 0
        distance = (
            np.arange(seen.start, seen.stop) - off - np.arange(rows.start, rows.stop)[:, None]
        )
        hidden = np.zeros(distance.shape, np.bool_)
        if self.right is not None:
            hidden |= distance > self.right
        if self.left is not None:
            hidden |= distance < -self.left
        return hidden


def mask(node: Node) -> Mask:
    """The node's mask; contradictions are refused."""
    left, right = (_bound(node, f"{side}_bound") for side in ("left", "right"))
    bottom_right = node.attributes.get("diagonal_alignment") == "bottom_right"
    top, bottom = (
        bool(node.attributes.get(key)) for key in ("causal_mask", "causal_mask_bottom_right")
    )
    if top and (bottom or bottom_right):
        raise refusal(node, "causal_mask is top-left, but bottom-right is also requested")
    if (top or bottom) and right not in (None, 0):
        raise refusal(node, f"a causal mask and right_bound {right} contradict each other")
    return Mask(left, 0 if top or bottom else right, bottom or bottom_right)


def _bound(node: Node, key: str) -> int | None:
    value = node.attributes.get(key)
    if value is not None and value < -1:
        raise refusal(node, f"{key} must be -1 (none) or ≥ 0, not {value}")
    return None if value is None or value == -1 else int(value)
