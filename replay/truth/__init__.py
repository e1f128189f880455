"""Ground truth: the changes of all pages, read from a log."""
