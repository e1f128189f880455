"""A year of a crawl in a minute: a broker, the service with its clock made fast, and two crawlers side by side."""
