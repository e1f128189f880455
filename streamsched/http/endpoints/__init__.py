"""The endpoints of the service, by those who call them: crawlers, readers, administrators, monitors."""
