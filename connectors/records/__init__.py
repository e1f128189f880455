"""The types of records: crawl outcomes and change signals, as events on the wire, as columns and as frames."""
