"""What requests and answers hold: the types that decode bodies, encode answers and make the schemas of OpenAPI."""
