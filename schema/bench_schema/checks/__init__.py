"""Checks of a document: its schema, its keys, and whether its times are possible."""
