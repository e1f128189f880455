"""What works beside the stream of a run: evolutions of the formula, plans of an optimiser."""
