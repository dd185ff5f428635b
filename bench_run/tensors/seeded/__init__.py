"""Inputs from a seed: what they must be like, how they are drawn, and where they are kept."""
