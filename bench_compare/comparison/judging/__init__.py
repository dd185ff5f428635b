"""From matrices of units to verdicts: estimates, what is learned elsewhere, reasons."""
