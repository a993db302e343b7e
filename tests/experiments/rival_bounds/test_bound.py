"""The table of all bounds."""

from experiments.rival_bounds import ALL_BOUNDS


def test_all_bounds_say_what_they_are():
    assert "betting" in ALL_BOUNDS
    for name, bound in ALL_BOUNDS.items():
        assert bound.name == name
        assert callable(bound.function)
        assert bound.ranking in ("joint", "separate")
        assert bound.rows in ("training", "held out")
        for field in ("target", "assumptions", "formula", "reference", "validity"):
            assert getattr(bound, field)
    assert ALL_BOUNDS["paper"].validity.startswith("does not hold")
