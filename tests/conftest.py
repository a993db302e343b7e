import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
# Two tests run at a time: a second OpenMP thread in each waits more than it works, in small boosted
# models a hundred times so. Set before anything loads OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: a failure can be repeated, and a pass means the same everywhere.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
