"""Numbers of documents: statistics of samples, and numbers that JSON has no words for."""
