"""Plan of a run: arguments to graphs, graphs and engines to cases. Parent process."""
