"""MIOpenDriver command lines and MIOpen log lines to graphs."""

from __future__ import annotations

from bench_run.graph.driver.convert import (
    Conversion,
    Converted,
    convert_line,
    convert_lines,
    graphs_of,
)

__all__ = ["Conversion", "Converted", "convert_line", "convert_lines", "graphs_of"]
