"""What really changed, read from a log."""
