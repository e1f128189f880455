"""How a log's pages change: intervals, rates, page types, hours of the week."""
