"""Views of a scheduler, read without changing it."""
