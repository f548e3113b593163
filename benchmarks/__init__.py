"""Measures what Toolgate costs from the outside: `make bench` runs all, `make soak` the long run.

Compare CPU times, and only within one run: machines are shared and differ. A benchmark is not a
test: a figure that misses its target is printed as missed, but nothing fails.
"""

import os

# As the program itself does before it loads NumPy: see `toolgate.cli`.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")
