"""What `[chat]` and `[models]` may hold."""

from pathlib import Path

import pytest

from toolgate.errors import SettingError
from toolgate.settings import load

MODEL = '[models.main]\nmodel = "m"\naliases = ["gpt-4o"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MODEL + 'fallbacks = ["other"]', "models.main.fallbacks names the model 'other'"),
        (MODEL + '[chat]\nmodel = "none"', "chat.model names the model 'none'"),
        ('[chat]\ntools_enabled = ["Web"]', "chat.tools_enabled contains 'Web'"),
        ('[chat.results]\n"a:*" = "burn"', "chat.results of 'a:*' is 'burn'"),
        ("[chat]\nmax_steps = 0", "chat.max_steps"),
        ('[chat]\nthread_fields = ["X Chat"]', "chat.thread_fields contains 'X Chat'"),
    ],
    ids=["fallback", "model", "kinds", "policy", "range", "fields"],
)
def test_what_cannot_work_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "toolgate.toml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(SettingError, match=said.replace("*", r"\*")):
        load(file, environ={}, cwd=tmp_path)


def test_aliases_are_names_too(tmp_path: Path) -> None:
    file = tmp_path / "toolgate.toml"
    file.write_text(MODEL + '[chat]\nmodel = "gpt-4o"', encoding="utf-8")

    assert load(file, environ={}, cwd=tmp_path).chat.model == "gpt-4o"
