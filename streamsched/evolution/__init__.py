"""GP4C: score functions evolved by genetic programming from what crawls found (Santos et al. 2015; SPEC 5)."""
