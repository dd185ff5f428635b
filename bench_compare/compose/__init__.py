"""Composition of a pipeline from measured layers: sums of rows and seams, and the best choice."""
