"""Related pages: small groups of one host's pages by their names, and where a URL has its keys."""
