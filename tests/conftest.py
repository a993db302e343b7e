import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")

# The same examples in every run: a failure can be repeated, and a pass means the same everywhere.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
