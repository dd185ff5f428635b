"""Whether a document is one: its schema, its keys, and times that can be."""
