"""What a plan left in its outputs: read, kept while samples are taken, and judged."""
