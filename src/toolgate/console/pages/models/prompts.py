"""The Prompts pages: all prompts, and one with its versions, their differences, and a trial."""

import difflib
from collections.abc import Sequence

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.store import StoredPrompt
from toolgate.types import Json

_VALUE = "value:"
"""Prefix of form fields with the values of placeholders."""

_CONTEXT_LINES = 3
"""Unchanged lines shown around a change (chosen: what `diff -u` shows)."""


async def _list(request: PageRequest) -> Response:
    prompts = await request.gateway.prompts.prompts(request.caller)
    word, state = request.query_value("q").strip().casefold(), request.query_value("state")
    matching = [
        prompt
        for prompt in prompts
        if word in f"{prompt['name']} {prompt['title']}".casefold()
        and (state != "replaced" or not prompt["is_default"])
    ]
    return request.page(
        "prompts.html",
        prompts=matching,
        total=len(prompts),
        word=request.query_value("q"),
        state=state,
    )


async def _show(request: PageRequest) -> Response:
    return await _page(request)


async def _page(
    request: PageRequest,
    *,
    lines: Sequence[str] = (),
    rendered: str | None = None,
    values: Json | None = None,
) -> Response:
    name = request.value("name")
    service = request.gateway.prompts
    prompt = await service.prompt(request.caller, name)
    default = service.default_text(name)
    versions = await service.versions(request.caller, name)
    text = request.value("text") if request.was_sent else prompt["text"]
    compared = _compared(request, versions, default)
    trial = await service.try_out(request.caller, name, None, {})
    return request.page(
        "prompt.html",
        prompt=prompt,
        name=name,
        text=text,
        is_known=prompt["text"] is not None or request.was_sent,
        default=default,
        versions=versions[::-1],
        last=_last(versions),
        compared=compared,
        lines=lines,
        rendered=rendered,
        fields=trial["fields"],
        values=values or {},
        value_prefix=_VALUE,
    )


async def _act(request: PageRequest) -> Response:
    service, name, text = request.gateway.prompts, request.value("name"), _text(request)
    match request.value("do"):
        case "try":
            values = {
                field.removeprefix(_VALUE): value
                for field, value in request.sent_fields()
                if field.startswith(_VALUE) and value
            }
            trial = await service.try_out(request.caller, name, text, values)
            return await _page(request, rendered=str(trial["text"]), values=dict(values))
        case "compare":
            prompt = await service.prompt(request.caller, name)
            lines = _difference(str(prompt["text"] or ""), text)
            return await _page(request, lines=lines or ["  No changes."])
        case "save":
            _check_unchanged(request, await service.versions(request.caller, name))
            await service.replace(request.caller, name, text)
            message = "Saved. Models receive the new text from the next request."
        case "restore":
            done = await service.clear(request.caller, name)
            message = (
                "The default text was restored." if done else "It already has the default text."
            )
        case other:
            raise ArgumentError(f"Unknown action {other[:40]!r}.")
    return request.go("prompt", message=message, name=name)


def _text(request: PageRequest) -> str:
    """Return the submitted text with the line ends of the stored ones; browsers send CRLF."""
    return request.value("text").replace("\r\n", "\n")


def _last(versions: Sequence[StoredPrompt]) -> int:
    return versions[-1].version if versions else 0


def _check_unchanged(request: PageRequest, versions: Sequence[StoredPrompt]) -> None:
    """Check that nobody has saved the prompt since the page was loaded.

    Raises:
        ArgumentError: Somebody has.
    """
    if request.value("state") != str(_last(versions)):
        raise ArgumentError(
            "The prompt was changed in the meantime.",
            hint="Compare your text with the current version below, then save it again.",
        )


def _compared(
    request: PageRequest, versions: Sequence[StoredPrompt], default: str | None
) -> Json | None:
    """Return the two versions that the address names, with their differences."""
    texts = {0: default or ""}
    texts |= {row.version: default or "" if row.text is None else row.text for row in versions}
    version_text = request.query_value("version")
    if not version_text.isdecimal() or int(version_text) not in texts:
        return None
    number = int(version_text)
    base = request.query_value("with")
    other = int(base) if base.isdecimal() and int(base) in texts else max(0, number - 1)
    return {
        "version": number,
        "with": other,
        "text": texts[number],
        "lines": _difference(texts[other], texts[number]),
    }


def _difference(before: str, after: str) -> list[str]:
    """Return changed lines with their context; each begins as in `difflib.ndiff`."""
    unified = difflib.unified_diff(
        before.splitlines(), after.splitlines(), n=_CONTEXT_LINES, lineterm=""
    )
    return [
        f"{line[0]} {line[1:]}" if line[0] in "+- " else line
        for at, line in enumerate(unified)
        if at > 1  # the names of files
    ]


ROUTES = (
    Route(path="prompts", show=_list),
    Route(path="prompt", show=_show, act=_act),
)
