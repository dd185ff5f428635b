"""Pipelines and suites: TOML files of graphs, how often each runs, and what passes between them."""
