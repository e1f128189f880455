"""Related pages: their records, and the keys that names of pages have in common."""
