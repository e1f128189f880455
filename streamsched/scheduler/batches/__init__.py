"""Which pages a batch has: the best, the panel, never-visited pages, random exploration and surge probes."""
