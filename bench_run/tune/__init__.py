"""The fastest variant of every graph: the space, the race, the record, and its use."""
