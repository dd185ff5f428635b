"""Documents, cases and graphs as text: terminal, CSV, Markdown, drawings."""
