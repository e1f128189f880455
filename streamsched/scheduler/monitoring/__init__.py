"""What can be measured of a scheduler at work: counts, calibration of its forecasts, freshness."""
