"""Messages about a wrong name suggest the closest one and list what is allowed."""

import pytest

from rspo.core.errors import InputError, allowed_names, errors_of, require_name


def test_a_close_name_is_suggested() -> None:
    assert allowed_names("stepz", ["seeds", "steps"]) == (
        "did you mean steps? Allowed: seeds, steps"
    )
    assert allowed_names("xyz", ["seeds", "steps"]) == "allowed: seeds, steps"
    assert allowed_names("xyz", []) == "allowed: none"


def test_a_name_that_is_not_allowed_is_refused() -> None:
    require_name("suite 'a'", "a", ["a", "b"])
    with pytest.raises(InputError) as error:
        require_name("suite 'c'", "c", ["a", "b"])
    assert str(error.value) == "no suite 'c'; allowed: a, b"


def test_only_errors_of_value_are_told_as_the_users() -> None:
    with pytest.raises(InputError, match=r"^own_reward: too large$"), errors_of("own_reward"):
        raise ValueError("too large")
    with pytest.raises(TypeError), errors_of("own_reward"):
        raise TypeError
