"""What will run: arguments into graphs, graphs and engines into cases. Parent process."""
