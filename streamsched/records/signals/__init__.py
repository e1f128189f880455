"""Records of change signals: what they say of each page, and what visits have shown of their sources."""
