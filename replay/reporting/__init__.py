"""Results of a replay as tables, figures and one HTML page."""
