"""Rounds as columns: what a comparison asks of all of them at once, in NumPy."""
