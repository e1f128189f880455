"""HTTP as the service speaks it: requests, answers, problems, routes and their description in OpenAPI."""
