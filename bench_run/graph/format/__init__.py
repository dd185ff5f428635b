"""hipDNN's JSON, read and written: graphs/FORMAT.md."""
