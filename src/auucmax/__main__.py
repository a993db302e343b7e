"""``python -m auucmax``: the same as the ``auucmax`` command."""

from auucmax.cli import main

if __name__ == "__main__":
    main()
