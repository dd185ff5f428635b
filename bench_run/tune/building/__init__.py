"""Candidates are built, stay built and are visited; those of several graphs at a time."""
