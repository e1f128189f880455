"""Requests to servers that strangers run or name: to checked addresses only, within limits, as robots.txt allows."""
