"""Fills the lists of messages in `troubleshooting.md`: `python docs/generate_errors.py`.

What a code means and what to do about it is written by hand; its messages are read from the places
in the code that raise them, so that none is missing.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from toolgate import errors
from toolgate.base.installation import DISTRIBUTION

FOLDER = Path(__file__).parent
SOURCES = FOLDER.parent / "src" / "toolgate"
PAGE = FOLDER / "troubleshooting.md"

ERRORS = {
    name: error
    for name, error in vars(errors).items()
    if isinstance(error, type) and issubclass(error, errors.ToolgateError)
}
"""By name of the class."""

_HINTS = ("install_hint", "package_hint")
"""Functions whose hint names the command of the installation; the page shows that of pip."""

_LIST = re.compile(r"(<!-- texts of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def troubleshooting() -> str:
    """Return the page with the messages that the code has."""
    texts = by_code()

    def fill(match: re.Match[str]) -> str:
        lines = "".join(f"* {text}\n" for text in sorted(texts.pop(match[2], ())))
        return f"{match[1]}{lines}{match[3]}"

    page = _LIST.sub(fill, PAGE.read_text(encoding="utf-8"))
    assert not texts, f"no heading with a list for: {', '.join(texts)}"
    return page


def by_code() -> dict[str, set[str]]:
    """Return every message that the code raises, by error code; variable parts become dots."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            text = _text(call.args[0]) if call.args else ""
            if name not in ERRORS or name == "RpcError" or not re.search(r"[a-z]{3}", text):
                continue
            hints = [_text(word.value) for word in call.keywords if word.arg == "hint"]
            hint = f" *{hints[0]}*" if hints and hints[0].strip(" .…") else ""
            found.setdefault(ERRORS[name].code, set()).add(f"{text}{hint}")
    return found


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values).replace("<", "&lt;")
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _HINTS:
        argument = _text(node.args[0])
        package = (
            f"{DISTRIBUTION}[{argument}]" if ast.unparse(node.func) == "install_hint" else argument
        )
        return f'Run: pip install "{package}"'
    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Call):
        return _text(node.body)
    return "…"


if __name__ == "__main__":
    PAGE.write_text(troubleshooting(), encoding="utf-8")
