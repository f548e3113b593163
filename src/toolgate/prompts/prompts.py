"""Looks up, renders and customises the prompts of projects."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from time import monotonic
from typing import Literal, cast

from toolgate.base.ids import utc_now
from toolgate.errors import ArgumentError, UnknownPromptError
from toolgate.prompts.base import PREFIX, Prompt
from toolgate.store import PromptRepository, StoredPrompt

log = logging.getLogger(__name__)

_AGE_S = 1.0
"""Seconds for which versions are cached, since other processes may write (chosen)."""

_MOST_CHARS = 100_000
"""Largest length of a prompt in characters (chosen)."""
_FIELD = re.compile(r"\{([a-z][a-z_0-9]*)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` for each name in `values`; all other braces stay."""
    return _FIELD.sub(lambda match: values.get(match[1], match[0]), text)


@cache
def _shipped() -> Mapping[str, Prompt]:
    """The default texts by name."""
    prompts: dict[str, Prompt] = {}
    folder = resources.files("toolgate.prompts") / "texts"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name, dot, kind = file.name.rpartition(".")
        if not dot or kind != "md":
            continue
        _, head, text = file.read_text(encoding="utf-8").split("---\n", 2)
        keys = dict(line.split(": ", 1) for line in head.splitlines())
        prompts[name] = Prompt(
            name=name,
            title=keys["title"],
            role=cast('Literal["assistant", "user"]', keys["role"]),
            text=text.strip(),
            needs=tuple(filter(None, keys.get("needs", "").split(", "))),
        )
    return prompts


@dataclass
class _Replacements:
    """The cached customised prompts of a project."""

    read_at: float
    latest: dict[str, StoredPrompt]


class Prompts:
    """The prompts of all projects."""

    def __init__(self, store: PromptRepository, *, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._clock = clock
        self._cache: dict[str, _Replacements] = {}

    async def all(self, project_id: str) -> list[Prompt]:
        """The built-in prompts, by name."""
        replaced = await self._latest(project_id)
        return [_active_prompt(prompt, replaced.get(name)) for name, prompt in _shipped().items()]

    async def get(self, project_id: str, name: str) -> Prompt:
        """A built-in prompt; its prefix is optional.

        Raises:
            UnknownPromptError: It does not exist.
        """
        shipped = _ours(name)
        return _active_prompt(shipped, (await self._latest(project_id)).get(shipped.name))

    def default_text(self, name: str) -> str | None:
        """The text that ships with Toolgate; None if the prompt is not built in."""
        shipped = _shipped().get(_key(name))
        return None if shipped is None else shipped.text

    async def render(self, project_id: str, name: str, values: Mapping[str, str]) -> str:
        """The text of a built-in prompt with its fields filled in; see `Render`."""
        return fill((await self.get(project_id, name)).text, values)

    async def replacement(self, project_id: str, name: str) -> StoredPrompt | None:
        """The customised version of a prompt of a pack or server; None if there is none."""
        stored = (await self._latest(project_id)).get(name)
        return None if stored is None or stored.text is None else stored

    async def versions(self, project_id: str, name: str) -> list[StoredPrompt]:
        """All versions of a prompt, oldest first."""
        return await self._store.versions(project_id, _key(name))

    async def replace(self, project_id: str, name: str, text: str, *, by: str = "") -> int:
        """Save a new version of a prompt. Returns its number.

        Args:
            project_id: The project.
            name: A built-in prompt, or a prompt of a pack or server as MCP clients see it, which
                the caller has looked up.
            text: Text with the fields that the prompt needs.
            by: Id of the caller.

        Raises:
            ArgumentError: The text is empty, too long, or lacks a field.
        """
        check(name, text)
        return await self._add(project_id, _key(name), text, by)

    async def clear(self, project_id: str, name: str, *, by: str = "") -> bool:
        """Restore the default text. False if the prompt was not customised."""
        key = _key(name)
        if await self.replacement(project_id, key) is None:
            return False
        await self._add(project_id, key, None, by)
        return True

    async def clear_all(self, project_id: str, *, by: str = "") -> list[str]:
        """Restore all default texts. Returns the names of the prompts."""
        latest = await self._latest(project_id)
        names = sorted(name for name, stored in latest.items() if stored.text is not None)
        for name in names:
            await self._add(project_id, name, None, by)
        return names

    async def _add(self, project_id: str, name: str, text: str | None, by: str) -> int:
        before = (await self._latest(project_id, fresh=True)).get(name)
        version = StoredPrompt(
            project_id=project_id,
            name=name,
            version=1 if before is None else before.version + 1,
            text=text,
            changed_at=utc_now(),
            changed_by=by,
        )
        await self._store.add(version)
        self._cache.pop(project_id, None)
        return version.version

    async def _latest(self, project_id: str, *, fresh: bool = False) -> dict[str, StoredPrompt]:
        replacements, time_s = self._cache.get(project_id), self._clock()
        if replacements is None or fresh or time_s - replacements.read_at > _AGE_S:
            rows = await self._store.versions(project_id, None)
            replacements = _Replacements(read_at=time_s, latest={row.name: row for row in rows})
            self._cache[project_id] = replacements
        return replacements.latest


def check(name: str, text: str) -> None:
    """Check whether a text can replace a prompt.

    Raises:
        ArgumentError: It cannot.
    """
    if not text.strip():
        raise ArgumentError(
            f"The text for the prompt {name[:80]!r} is empty.",
            hint="Write one, or restore the default with: toolgate prompts clear",
        )
    if len(text) > _MOST_CHARS:
        raise ArgumentError(
            f"The text for the prompt {name[:80]!r} has {len(text):,} characters.",
            allowed=f"Allowed: up to {_MOST_CHARS:,}.",
        )
    shipped = _shipped().get(_key(name))
    missing = _missing(shipped, text) if shipped is not None else []
    if missing:
        raise ArgumentError(
            f"The text for the prompt {name[:80]!r} lacks the field {{{missing[0]}}}.",
            allowed="Needed: " + ", ".join(f"{{{field}}}" for field in shipped.needs) + "."
            if shipped is not None
            else "",
            hint="Insert it where its value belongs.",
        )


def _active_prompt(shipped: Prompt, stored: StoredPrompt | None) -> Prompt:
    if stored is None:
        return shipped
    if stored.text is None:
        return replace(shipped, version=stored.version)
    if _missing(shipped, stored.text):
        # It was valid for the version that it was written for.
        log.warning("prompt as it ships", extra={"prompt": shipped.name, "why": "lacks a field"})
        return shipped
    return replace(
        shipped,
        text=stored.text,
        version=stored.version,
        changed_at=stored.changed_at,
        changed_by=stored.changed_by,
    )


def _missing(shipped: Prompt, text: str) -> list[str]:
    has = fields_in(text)
    return [name for name in shipped.needs if name not in has]


def fields_in(text: str) -> set[str]:
    """The names of the fields in a text, such as `question` for `{question}`."""
    return {match[1] for match in _FIELD.finditer(text)}


def _key(name: str) -> str:
    """The name under which a prompt is stored: built-in ones without prefix, others unchanged."""
    plain = name.removeprefix(PREFIX)
    return plain if plain in _shipped() else name


def _ours(name: str) -> Prompt:
    shipped = _shipped().get(_key(name))
    if shipped is None:
        raise UnknownPromptError(
            f"There is no prompt {name[:80]!r}.",
            allowed=f"Own prompts: {', '.join(_shipped())}.",
            hint="See: toolgate prompts list",
        )
    return shipped
