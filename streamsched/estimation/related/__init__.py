"""Related pages: which pages have names in common, and what a change of one says about the others."""
