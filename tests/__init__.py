"""The tests; ``naive`` holds the slow, obvious twin of every kernel."""
