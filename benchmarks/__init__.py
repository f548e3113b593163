"""What Toolgate costs, seen from outside: `make bench` runs all, `make soak` the long run.

Times are compared on CPU time and within one run, because machines are shared and differ. No
benchmark is a test: a figure that misses its target is printed as missed, and nothing fails.
"""

import os

# As the program does itself before numpy is loaded: see `toolgate.cli`.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")
