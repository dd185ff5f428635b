"""What the user named, as graphs: files, folders, globs, archives, suites and sweeps."""
