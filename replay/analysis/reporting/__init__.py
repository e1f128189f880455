"""Figures, reports and text of an analysis."""
