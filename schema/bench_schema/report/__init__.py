"""A report as a value, and its renderers that both commands have: terminal, Markdown, CSV."""
