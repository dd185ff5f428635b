"""One file for each thing `bench-run` can be asked besides a run."""
