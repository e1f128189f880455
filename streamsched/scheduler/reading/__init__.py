"""What can be read of a scheduler without changing it."""
