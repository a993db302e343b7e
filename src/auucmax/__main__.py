"""The ``auucmax`` command, and ``python -m auucmax``."""

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Run the command; Ctrl-C exits with one line, even while libraries are being imported."""
    signal.signal(signal.SIGINT, _stop)
    from auucmax.cli import main as run

    run()


def _stop(*_: Any) -> None:
    # At once: an exception in the middle of an import may surface as any other error.
    print("auucmax: interrupted; no file was changed", file=sys.stderr, flush=True)
    os._exit(130)


if __name__ == "__main__":
    main()
