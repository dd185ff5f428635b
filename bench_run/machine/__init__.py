"""Host and devices of a run, their clocks and temperatures."""
