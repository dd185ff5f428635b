"""Circumstances of the numbers: settings, units of hardware, disturbed rounds, odd samples."""
