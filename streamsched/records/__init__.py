"""Fixed-size records of pages, hosts and URL patterns, the indexes over them, and what was changed since when."""
