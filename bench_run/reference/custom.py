"""Custom operations, whose meaning belongs to the plugin that brought them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.reference.common import Array, Arrays, Outputs, refusal

if TYPE_CHECKING:
    from bench_run.graph.model import Node


def custom(node: Node, _inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    name = node.attributes.get("custom_op_id")
    raise refusal(node, f"the meaning of custom operation {name!r} belongs to its plugin")
