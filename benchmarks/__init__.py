"""What Toolgate costs, seen from outside: `make bench` runs all, `make soak` the long run.

Times are compared on CPU time and within one run, because machines are shared and differ. No
benchmark is a test: a figure that misses its target is printed as missed, and nothing fails.
"""
