"""Recipes that turn operations of an op spec into nodes and tensors: a file for each family."""
