"""Graphs from nothing: op specs such as ``conv_fwd+bias+relu: n=32 c=64`` (grammar: `spec`)."""

from __future__ import annotations

from bench_run.graph.make.recipes.recipe import SHAPE_CLASSES, Recipe
from bench_run.graph.make.spec import ALIASES, FAMILIES, OPS, make_graphs

__all__ = ["ALIASES", "FAMILIES", "OPS", "SHAPE_CLASSES", "Recipe", "make_graphs"]
