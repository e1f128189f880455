"""A vector index that is kept fresh: documents are embedded when they change, and deleted when they are gone."""
