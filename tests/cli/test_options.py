"""Options that several commands share: each is described."""

import re

import pytest
from tests.cli.commands import COMMANDS, GONE, run


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_every_option(name):
    result = run(f"{name} --help")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    for option in COMMANDS[name].params:
        if option.name in GONE:
            assert option.hidden
            assert option.opts[0] not in shown
            continue
        assert option.help, option.name
        assert all(spelling in shown for spelling in option.opts if spelling.startswith("-"))
        assert " ".join(option.help.split())[:30] in shown


def test_every_model_is_in_the_help():
    from auucmax.trial_model import MODELS

    (option,) = (option for option in COMMANDS["fit"].params if option.name == "model")
    named = re.sub(r" \(.*?\)", "", option.help.rstrip("."))
    assert set(re.split(r", | or ", named)) == set(MODELS)
