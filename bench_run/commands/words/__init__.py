"""What the command line says: the help of each flag, and guesses at what was meant."""
