"""Change signals: how far each source is believed, what its signals and its silence say of a page."""
