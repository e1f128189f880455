"""The hostile test: damaged files, kills, fuzzed inputs, wrong arguments, threads, hostile URLs and outcomes.

``make test`` runs a few seeded cases of each attack, ``make soak`` all of them. An attack is a test marked with
`cases`; it holds for every case, whatever was damaged: no wrong state, no page leased twice, no acknowledged call lost,
a clear error of `streamsched.errors` or the right result, no traceback, no hang.
"""
