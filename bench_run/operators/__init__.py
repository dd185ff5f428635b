"""What the formulas of the table of operators mean, in NumPy and in PyTorch."""
