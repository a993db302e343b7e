"""``auucmax compare``: by random splits, and against a model."""

from tests.cli.commands import ALL_BUT_PERSON, run


def test_a_comparison_is_shown_whole(files):
    shown = run(
        f"compare {files.trial} {ALL_BUT_PERSON} --splits 2 --models tm,cvt --details"
    ).stdout
    assert "..." not in shown.split("Differences to tm:")[1]
    assert "p_holm" in shown
    assert "by `auucmax fit --candidates 2`: its certificate then allows for the choice" in shown
    shown = run(f"compare {files.trial} --against {files.model} --models cvt,mom").stdout
    assert shown.count(" AUUC ") == 3
    assert "by `auucmax fit --candidates 3`: its certificate then allows for the choice" in shown
