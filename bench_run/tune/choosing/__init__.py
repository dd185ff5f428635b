"""Who wins, of one graph and of all: arrays in, decisions out."""
