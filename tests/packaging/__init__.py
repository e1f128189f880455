"""What is installed, and what may import what."""
