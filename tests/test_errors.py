"""What an error says of an input."""

import pickle

from auucmax._errors import InputError


def test_an_input_error_names_the_input_and_what_to_do():
    error = InputError("share", "between 0 and 1", "30", "Pass 0.3 for 30%.")
    assert isinstance(error, ValueError)
    assert str(error) == "share should be between 0 and 1, got 30. Pass 0.3 for 30%."
    assert (error.parameter, error.expected) == ("share", "between 0 and 1")
    assert (error.received, error.hint) == ("30", "Pass 0.3 for 30%.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # from a worker process
