"""One program for each claim in the README; each prints its rival's figure beside ours."""
