"""Graphs that run one after another as one: what a pipeline file stands for."""
