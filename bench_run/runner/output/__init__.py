"""What a run writes: whether it can, under which lock, and how it goes on later."""
