"""A Scrapy spider that revisits a local site whose pages change as those of a log did, beside oldest first."""
