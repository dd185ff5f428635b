"""Which rows a configuration takes: what may be chosen, and what is best."""
