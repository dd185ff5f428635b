"""Tests of the lint of English: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.english import findings

VERB = "begin with a verb"
NOUN = "begin with a verb (function) or a noun (value)"
NOT_A = "write 'is not a' or 'does not have'"
PERSON = "name the case, the caller or the process, not a person"
FOUND = {
    '"""Whether it is."""': NOUN,
    'x = 1\n"""Of the thing."""': NOUN,
    'def f():\n    """Each of them."""': VERB,
    'def f():\n    """Return it; there is no file."""': "write 'without' or 'does not have'",
    'x = "that is no graph"': NOT_A,
    'x = f"that is no {y}"': NOT_A,
    'x = "nobody reads it"': PERSON,
    "x = 1  # who reads this": PERSON,
}
LEFT = (
    'class C:\n    @property\n    def f(self):\n        """Each value."""',
    'def f():\n    """Return the path."""',
    'x = "is no longer checked"',
    'x = "there is no graph here"',
    'x = {"who": 1}',
)


@pytest.mark.parametrize(("text", "rule"), FOUND.items())
def test_a_text_that_breaks_a_rule_is_found(tmp_path, text, rule):
    path = tmp_path / "module.py"
    path.write_text(f"{text}\n")
    assert [rule] == [found for _, _, found in findings(path)]


@pytest.mark.parametrize("text", LEFT)
def test_other_texts_are_left_alone(tmp_path, text):
    path = tmp_path / "module.py"
    path.write_text(f"{text}\n")
    assert [] == list(findings(path))
