"""Access rules: their patterns and sources."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, cast

from toolgate.errors import ArgumentError, SettingError
from toolgate.settings import PermissionTable
from toolgate.store import StoredPermission

Kind: TypeAlias = Literal["any", "server", "tool", "resource", "prompt", "right"]
"""Target of a rule. `any`: all tools, resources and prompts; `server`: those of servers."""

Hint: TypeAlias = Literal["", "read_only", "destructive"]
"""Restricts a rule to tools with this mark."""

RIGHTS = ("manage", "internal", "approve")
"""`manage`: servers, projects, tokens and permissions. `internal`: tools that are hidden by
default because they are parts of others. `approve`: approving or rejecting calls that await
approval."""

_KINDS = ("any", "server", "tool", "resource", "prompt", "right")
_WHO = re.compile(r"everyone|(?:token|role|user(?:@[\w-]+)?|group|project):.+", re.DOTALL)
# Maximum length of a pattern. Chosen: tool names are shorter.
_LONGEST = 500


@dataclass(frozen=True, kw_only=True)
class AccessRule:
    """An access rule, in the form that decisions use."""

    effect: Literal["allow", "deny"]
    """Effect of the rule."""

    who: str
    """Subject of the rule."""

    kind: Kind
    """Target of the rule."""

    pattern: str
    """Pattern for names, keys (`server:tool`, `server:uri`, `server:prompt`) or rights."""

    hint: Hint = ""
    """Restricts the rule to tools with this mark."""

    source: str = "built in"
    """Source of the rule: file and line, its id in the store, or `built in`."""

    permission_id: str = ""
    """Id in the store; empty if it is not there."""

    def __str__(self) -> str:
        """Return the rule as people write it, with its source."""
        target = self.pattern if self.kind in {"any", "tool"} else f"{self.kind}={self.pattern}"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.effect} {target}{hint} to {self.who} [{self.source}]"


def _built_in() -> Iterator[AccessRule]:
    yield AccessRule(effect="allow", who="role:admin", kind="any", pattern="*")
    yield AccessRule(effect="allow", who="role:admin", kind="right", pattern="*")
    yield AccessRule(effect="allow", who="role:member", kind="any", pattern="*")
    yield AccessRule(effect="allow", who="role:reader", kind="tool", pattern="*", hint="read_only")
    yield AccessRule(effect="allow", who="role:reader", kind="resource", pattern="*")
    yield AccessRule(effect="allow", who="role:reader", kind="prompt", pattern="*")


BUILT_IN = tuple(_built_in())
"""Rules of the three built-in roles."""


def parse_pattern(text: str) -> tuple[Kind, str]:
    """Parse a pattern (`*`, `server`, `server:tool`, or `KIND=pattern`) into kind and pattern.

    Raises:
        ArgumentError: The pattern is empty, too long, or has an unknown kind.
    """
    kind, equals, pattern = text.partition("=")
    if equals and kind in _KINDS and kind != "any" and 0 < len(pattern) <= _LONGEST:
        if kind == "right" and pattern not in {*RIGHTS, "*"}:
            raise ArgumentError(
                f"There is no right {pattern[:60]!r}.", allowed=f"Rights: {', '.join(RIGHTS)}."
            )
        return cast("Kind", kind), pattern
    if equals or not text or len(text) > _LONGEST or not text.isprintable():
        raise ArgumentError(
            f"{text[:80]!r} is not a permission pattern.",
            allowed="Allowed: *, SERVER, SERVER:TOOL, resource=SERVER:URI, prompt=SERVER:NAME,"
            " right=manage, right=internal, right=approve; * and ? stand for any text and any"
            " character.",
        )
    if text == "*":
        return "any", "*"
    return ("tool" if ":" in text else "server"), text


def check_who(who: str) -> str:
    """Return the subject of a rule if it is valid.

    Raises:
        ArgumentError: The subject is invalid.
    """
    if not _WHO.fullmatch(who) or len(who) > _LONGEST or not who.isprintable():
        raise ArgumentError(
            f"{who[:80]!r} is not a valid subject of a rule.",
            allowed="Allowed: everyone, token:NAME, role:NAME, user:NAME, user@jwt:NAME,"
            " group:NAME, project:NAME.",
        )
    return who


def rules_of_file(tables: Iterable[PermissionTable]) -> Iterator[AccessRule]:
    """Return the rules of the configuration.

    Raises:
        SettingError: A pattern is invalid.
    """
    for table in tables:
        for effect, patterns in (("allow", table.allow), ("deny", table.deny)):
            for text in patterns:
                try:
                    kind, pattern = parse_pattern(text)
                except ArgumentError as error:
                    raise SettingError(
                        f"{table.source}: {error.failed}", allowed=error.allowed, hint="Correct it."
                    ) from error
                for who in table.to:
                    yield AccessRule(
                        effect=cast("Literal['allow', 'deny']", effect),
                        who=who,
                        kind=kind,
                        pattern=pattern,
                        hint=table.hint,
                        source=table.source,
                    )


def rules_of_store(rows: Iterable[StoredPermission]) -> Iterator[AccessRule]:
    """Return the rules that were created by command or API."""
    for row in rows:
        yield AccessRule(
            effect=row.effect,
            who=row.who,
            kind=cast("Kind", row.kind),
            pattern=row.pattern,
            hint=cast("Hint", row.hint),
            source=f"row {row.permission_id}",
            permission_id=row.permission_id,
        )


@lru_cache(maxsize=16_384)
def glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern: `*` matches any text, `?` any character, all else itself.

    Each part between two stars is searched for once, so that no pattern makes matching slow.
    """
    first, *rest = (_literal(part) for part in re.split(r"\*+", pattern))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    inner = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(f"{first}{inner}.*{last}", re.DOTALL)


def is_switched_on(switches: Mapping[str, bool], tool: str) -> bool:
    """Whether `tool_permissions` enable a tool: its own name counts, else the longest pattern."""
    if tool in switches:
        return switches[tool]
    patterns = [name for name in switches if "*" in name or "?" in name]
    matching = [pattern for pattern in patterns if glob(pattern).fullmatch(tool)]
    return switches[max(matching, key=len)] if matching else True


def _literal(part: str) -> str:
    return ".".join(map(re.escape, part.split("?")))
