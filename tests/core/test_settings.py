"""The differences between two settings, in words that fit into a message."""

from rspo.core.settings import differences, first_lines, first_of


def test_differences_name_nested_keys_and_absent_ones() -> None:
    old = {"a": {"b": 1, "c": [1, 2]}, "d": None}
    new = {"a": {"b": 2, "c": [1, 2]}, "e": "long " * 20}
    assert differences(old, new) == (
        'a.b: 1 -> 2, e: none -> "long long long long long long long l..., d: null -> none'
    )
    assert differences(old | {"f": 1}, new).endswith(", d: null -> none and 1 more")
    assert differences(old, old) == ""


def test_missing_settings_differ_from_any() -> None:
    """As in damaged provenance."""
    assert differences(None, {"a": 1}).startswith("a: none -> 1")
    assert differences(None, {}) != ""


def test_values_are_compared_as_json() -> None:
    assert differences({"a": [1, 2]}, {"a": (1, 2)}) == ""
    assert differences({"a": 1}, {"a": 1.0}) == "a: 1 -> 1.0"
    assert differences({"a": {}}, {"a": {}}) == ""


def test_a_value_of_forty_characters_is_shown_whole() -> None:
    """Its quotation marks included."""
    assert differences({"a": "x" * 38}, {"a": 1}) == f'a: "{"x" * 38}" -> 1'
    assert differences({"a": "x" * 39}, {"a": 1}) == f'a: "{"x" * 36}... -> 1'


def test_a_long_message_tells_how_much_it_leaves_out() -> None:
    assert first_of([]) == ""
    assert first_of(["a", "b", "c"]) == "a, b, c"
    assert first_of(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert first_lines(["a", "b"], 2) == ["a", "b"]
    assert first_lines(["a", "b", "c"], 2) == ["a", "b", "and 1 more"]
