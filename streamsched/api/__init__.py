"""What the HTTP service is asked and answers: its operations, the types of requests, views and answers."""
