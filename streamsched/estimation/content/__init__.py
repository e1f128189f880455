"""How much the contents of a page differ: fingerprints, and what is learned of the significance of its changes."""
