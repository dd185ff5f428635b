"""Rounds that are prepared at the same time and measured one after the other."""
