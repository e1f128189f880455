"""Figures of the service: samples at regular times, and their exposition for Prometheus."""
