"""Graphs from the command line: files, folders, globs, archives, suites and sweeps."""
