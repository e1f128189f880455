"""GP4C: score functions evolved by genetic programming from crawl history (Santos et al. 2015)."""
