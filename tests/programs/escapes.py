"""Programs that try to escape: each form of a group of `escapes.toml` with each of its values."""

import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).with_name("escapes.toml")


@dataclass(frozen=True)
class Attempt:
    group: str
    code: str
    ends: bool
    """Whether only a limit can end it, or it gives nothing."""

    checked: bool
    """Whether its types are checked, as those of programs that name tools."""

    parks: bool
    """Whether it is parked and restored at the first call that it waits for."""


def attempts(*, secret_file: str, target_file: str) -> list[Attempt]:
    """All attempts, with the paths that they try to read and to write."""
    made: dict[str, Attempt] = {}
    for group in tomllib.loads(_DATA.read_text("utf-8"))["group"]:
        for form in group["forms"]:
            for value in group["values"]:
                plain = value.replace("{{", "{").replace("}}", "}")
                code = form.replace("{{", "{").replace("}}", "}")
                for mark, indent in (("{ww}", 8), ("{w}", 4), ("{v}", 0)):
                    code = code.replace(mark, textwrap.indent(plain, " " * indent).lstrip())
                code = code.replace("{v*}", plain * group.get("repeat", 1))
                code = code.replace("{secret_file}", secret_file)
                code = code.replace("{target_file}", target_file)
                how = [group.get(key, False) for key in ("ends", "checked", "parks")]
                made[code] = Attempt(group["name"], code, *how)
    return list(made.values())
