"""Crawlers that lease pages from the service over HTTP. They import neither the scheduler nor numba."""
