"""A judgement of kernels: correct, honest, and faster than a base by how much."""

THRESHOLD = "1%"
"""Smallest change of interest."""
BUDGET_S = 15.0
"""Time of an answer."""
