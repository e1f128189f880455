"""Programs that show streamsched at work. They run in a checkout."""
