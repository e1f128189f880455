"""Fetches sitemaps and feeds politely and makes change signals of them; a scheduler of their own decides when."""
