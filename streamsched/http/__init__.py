"""The HTTP service: crawlers ask for pages and report outcomes, operators watch and set rules."""
