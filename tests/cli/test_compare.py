"""``auucmax compare``: by random splits, and against a model."""

from tests.cli.commands import ALL_BUT_PERSON, run


def test_a_comparison_is_shown_whole(files):
    shown = run(
        f"compare {files.trial} {ALL_BUT_PERSON} --splits 2 --models tm,cvt --details"
    ).stdout
    assert "..." not in shown.split("Differences to tm:")[1]
    assert "p_holm" in shown
    assert "`auucmax fit --candidates 2` makes its certificate pay for that." in shown
    shown = run(f"compare {files.trial} --against {files.model} --models cvt,mom").stdout
    assert "`auucmax fit --candidates 3` makes its certificate pay for that." in shown
