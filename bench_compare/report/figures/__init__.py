"""Figures of plotly, made in Python: what the page draws, and what ``--figures`` writes."""
