"""Problem lines and batch files of oneDNN's benchdnn to graphs."""

from __future__ import annotations

from bench_run.graph.benchdnn.lines import convert_lines

__all__ = ["convert_lines"]
