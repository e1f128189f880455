"""The k best pages at any time, exactly, kept up to date: block upper bounds that expire."""
