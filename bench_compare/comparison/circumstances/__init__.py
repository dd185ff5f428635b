"""What stands beside the numbers: settings, units of hardware, disturbed rounds, odd samples."""
