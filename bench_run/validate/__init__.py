"""Outputs against a reference, and how large rounding errors may be."""
