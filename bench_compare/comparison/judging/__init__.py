"""Steps from matrices of observations to verdicts: estimates, calibration, reasons."""
