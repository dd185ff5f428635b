"""What ran where: host, devices, their clocks and temperatures."""
