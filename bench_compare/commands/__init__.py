"""One module for each thing the command can be asked."""
