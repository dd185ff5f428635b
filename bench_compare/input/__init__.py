"""Files → documents → sides → aligned cases."""
