"""Outputs against a reference, and how far honest arithmetic may be from it."""
