"""The console: one page that shows what the service does. Its files are in ``static``; docs/console.md says more."""
