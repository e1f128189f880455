"""``python -m streamsched``: the command line."""

from streamsched.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
