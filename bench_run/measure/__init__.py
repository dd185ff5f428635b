"""Timing: the timing loop, waiting for the clock, memory, energy, ceilings of a device."""
