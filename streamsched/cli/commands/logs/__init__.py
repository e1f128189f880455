"""The commands that read and write logs alone: change logs and files of crawl outcomes."""
