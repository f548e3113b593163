"""Variables in rules: what counts as one, and what stays as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.intents.rules import Template


def test_a_variable_is_replaced_wherever_it_stands() -> None:
    template = Template("{{A}} and `{{A}}`, {{B}}{{A}}")

    assert template.names == {"A", "B"}
    assert template.filled({"A": "1", "B": "2"}) == "1 and `1`, 21"


def test_unknown_variables_stay_visible_and_are_named_in_order() -> None:
    template = Template("{{Z}} {{A}} {{Z}} {{B}}")

    assert template.filled({"A": "1"}) == "{{Z}} 1 {{Z}} {{B}}"
    assert template.unknown({"A": ""}) == ("Z", "B")


@pytest.mark.parametrize(
    "text",
    [
        "{{ A }}",
        "{{A",
        "{{A}",
        "{A}",
        "{{A B}}",
        "{{A.b}}",
        "{{#each A}}x{{/each}}",
        "${{ secrets.A }}",
        "{{}}",
        "{{1A}}",
        "{%raw%}{{ user }}{%endraw%}",
        "func() {{ return {}; }}",
    ],
)
def test_other_braces_mean_nothing(text: str) -> None:
    """Rules hold code: Handlebars, GitHub Actions, Jinja, C."""
    assert Template(text).filled({"A": "1", "user": "x", "each": "x"}) == text


def test_a_value_is_not_looked_at_again() -> None:
    assert Template("{{A}}").filled({"A": "{{B}}", "B": "no"}) == "{{B}}"
    assert Template("{{{A}}}").filled({"A": "1"}) == "{1}"


def test_lines_with_a_variable_that_is_not_closed_are_named() -> None:
    template = Template("fine {{A}}\nbad {{PROJECT_NAME\nbad {{TOOLS}\ncode {{ x\n{{lower\n{{B}}")

    assert template.unclosed == (2, 3)


@given(st.text(alphabet="{}AB_ \n1", max_size=60), st.dictionaries(st.text(), st.text()))
def test_any_text_is_a_template(text: str, values: dict[str, str]) -> None:
    template = Template(text)

    assert template.filled({}) == text
    template.filled(values)
    assert all(1 <= line <= text.count("\n") + 1 for line in template.unclosed)
