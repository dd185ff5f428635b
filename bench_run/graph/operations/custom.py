"""An operation that only a plugin knows. See graphs/FORMAT.md.

The file lists its tensors without names; here they are ports ``input_0`` …, ``output_0`` ….
"""

from __future__ import annotations

from bench_run.graph.operations.base import Operation, Parameter, Port, no_rule

ROWS = (
    Operation(
        type="CustomOpAttributes",
        name="custom_op",
        family="custom",
        inputs=(Port("input", required=False, numbered=True),),
        outputs=(Port("output", required=False, numbered=True),),
        parameters=(
            Parameter("custom_op_id", "text", required=True),
            Parameter("data", "bytes", default=()),
        ),
        flat_ports=True,
        check=no_rule,
        flops=lambda view: None if view.node.custom is None else view.node.custom.flops,
    ),
)
