"""Formulas of the table of operators, in NumPy."""
