"""Administration of tokens, projects, rules and guards; changes apply from the next request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from difflib import get_close_matches

from toolgate.base.ids import new_id, utc_now
from toolgate.base.names import is_project_name
from toolgate.errors import ArgumentError, ForbiddenError, SettingError
from toolgate.security.access.access_data import AccessData, project_table
from toolgate.security.access.decision import Access
from toolgate.security.access.input_checks import (
    check_default_settings,
    check_name,
    check_project_search,
    check_project_settings,
    checked_limits,
    expiry_of,
)
from toolgate.security.access.rules import AccessRule, check_who, parse_pattern
from toolgate.security.authn import digest_of, new_prefix, new_token
from toolgate.settings import GuardTable, ProjectTable, Settings
from toolgate.store import Store, StoredGuard, StoredPermission, StoredProject, StoredToken
from toolgate.types import DEFAULT_PROJECT, Caller, Json


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A newly created token."""

    row: StoredToken
    """The stored token."""

    secret: str
    """The token itself. WARNING: it is shown only this once."""


@dataclass(frozen=True, kw_only=True)
class ProjectView:
    """A project for display."""

    name: str
    """Name of the project."""

    servers: tuple[str, ...]
    """Names of its servers."""

    settings: ProjectTable
    """Settings of the project."""

    source: str
    """The file that declares it, or `store`."""


class AccessAdmin:
    """Implements `tokens`, `projects`, `permissions` and `guards`. Checks the right `manage`."""

    def __init__(
        self,
        store: Store,
        book: AccessData,
        access: Access,
        *,
        settings: Callable[[], Settings],
        rules_of_file: Callable[[], Sequence[AccessRule]],
        guards: Callable[[], Sequence[tuple[str, GuardTable]]],
        read_guard: Callable[[StoredGuard], GuardTable],
        servers_of: Callable[[str], Sequence[str]],
        delete_documents: Callable[[str], Awaitable[None]],
        change: Callable[[Caller, str, Json], AbstractAsyncContextManager[None]],
    ) -> None:
        self._store = store
        self._book = book
        self._access = access
        self._settings = settings
        self._rules_of_file = rules_of_file
        self._guards = guards
        self._read_guard = read_guard
        self._servers_of = servers_of
        self._delete_documents = delete_documents
        self._change = change

    def _of_file(self) -> Mapping[str, ProjectTable]:
        return self._settings().project

    def _config_file(self) -> str:
        return str(self._settings().config_file or "the configuration")

    # Tokens

    async def tokens(self, caller: Caller, *, with_use: bool = False) -> list[StoredToken]:
        """Return all tokens, sorted by name.

        Args:
            caller: Must be allowed to manage.
            with_use: Whether `last_used_at` is current; this reads all tokens from the store.

        Raises:
            ForbiddenError: The caller may not manage.
        """
        self._must_manage(caller)
        if with_use:
            tokens = await self._book.tokens_with_use()
        else:
            await self._book.refresh()
            tokens = list(self._book.snapshot.tokens.values())
        return sorted(tokens, key=lambda token: token.name)

    async def create_token(
        self,
        caller: Caller,
        name: str,
        *,
        projects: Sequence[str] = (),
        roles: Sequence[str] = (),
        groups: Sequence[str] = (),
        user: str = "",
        read_only: bool = False,
        expires_in_s: float | None = None,
        limits: Mapping[str, int] | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> NewToken:
        """Create a token, and rules for it.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The name is taken or invalid, a project does not exist, or a pattern
                or limit is invalid.
        """
        self._must_manage(caller)
        await self._book.refresh()
        check_name(name, "token")
        if any(token.name == name for token in self._book.snapshot.tokens.values()):
            raise ArgumentError(
                f"There is a token {name!r} already.",
                hint=f"Choose another name, or rotate it: toolgate tokens rotate {name}",
            )
        for project in projects:
            if project != "*":
                self._project(project)
        for word in (*roles, *groups, *([user] if user else [])):
            if not word.isprintable() or not word.strip() or len(word) > 200:
                raise ArgumentError(f"{word[:60]!r} cannot be a role, group or user.")
        rules = [
            *self._rows("allow", allow, [f"token:{name}"], ""),
            *self._rows("deny", deny, [f"token:{name}"], ""),
        ]
        prefix = new_prefix()
        while prefix in self._book.snapshot.tokens:
            prefix = new_prefix()
        secret = new_token(prefix)
        row = StoredToken(
            token_id=new_id(),
            name=name,
            prefix=prefix,
            digest=digest_of(secret),
            user=user,
            projects=tuple(dict.fromkeys(projects)),
            roles=tuple(dict.fromkeys(roles)),
            groups=tuple(dict.fromkeys(groups)),
            read_only=read_only,
            limits=checked_limits(limits or {}),
            created_at=utc_now(),
            expires_at=expiry_of(expires_in_s),
        )
        async with self._change(caller, "token_create", {"token": name, "prefix": prefix}):
            await self._store.access.save_token(row)  # first: without its rules it may do nothing
            await self._store.access.save_permissions(rules)
        await self._book.refresh()
        return NewToken(row=row, secret=secret)

    async def rotate_token(
        self, caller: Caller, name: str, *, grace_s: float = 0.0, expires_in_s: float | None = None
    ) -> NewToken:
        """Replace the secret of a token; the old one stays valid for `grace_s` seconds.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The token does not exist, or is revoked.
        """
        self._must_manage(caller)
        token = await self._token(name)
        if token.revoked_at is not None:
            raise ArgumentError(
                f"The token {token.name!r} was revoked.", hint="Create a new one with another name."
            )
        if not 0 <= grace_s <= 30 * 86_400:
            raise ArgumentError(
                f"{grace_s:g} seconds is not a valid time for the old token to stay valid.",
                allowed="Allowed: 0 to 2,592,000 seconds (30 days).",
            )
        secret = new_token(token.prefix)
        row = replace(
            token,
            digest=digest_of(secret),
            rotated_at=utc_now(),
            old_digest=token.digest if grace_s else None,
            old_until=utc_now(plus_s=grace_s) if grace_s else None,
            expires_at=token.expires_at if expires_in_s is None else expiry_of(expires_in_s),
        )
        detail: Json = {"token": token.name, "prefix": token.prefix}
        async with self._change(caller, "token_rotate", detail):
            await self._store.access.save_token(row)
        await self._book.refresh()
        return NewToken(row=row, secret=secret)

    async def revoke_token(self, caller: Caller, name: str) -> StoredToken:
        """Reject a token from now on; does nothing if it is already revoked.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The token does not exist.
        """
        self._must_manage(caller)
        token = await self._token(name)
        row = replace(token, revoked_at=token.revoked_at or utc_now(), old_digest=None)
        detail: Json = {"token": token.name, "prefix": token.prefix}
        async with self._change(caller, "token_revoke", detail):
            await self._store.access.save_token(row)
        await self._book.refresh()
        return row

    async def delete_token(self, caller: Caller, name: str) -> StoredToken:
        """Delete a token and the rules for it alone, so that its name can be used again.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The token does not exist.
        """
        self._must_manage(caller)
        token = await self._token(name)
        permission_ids = [
            row.permission_id
            for row in self._book.snapshot.permissions
            if row.who == f"token:{token.name}"
        ]
        detail: Json = {"token": token.name, "prefix": token.prefix}
        async with self._change(caller, "token_delete", detail):
            await self._store.access.delete_permissions(permission_ids)
            await self._store.access.delete_token(token.token_id)
        await self._book.refresh()
        return token

    async def token_named(self, caller: Caller, word: str) -> StoredToken:
        """Find a token by name, id, prefix, or the token itself.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The token does not exist.
        """
        self._must_manage(caller)
        return await self._token(word)

    @staticmethod
    def problem_of(token: StoredToken) -> str:
        """Return why a token is invalid; empty if it is valid."""
        if token.revoked_at is not None:
            return f"The token {token.name!r} was revoked, at {token.revoked_at}."
        if token.expires_at is not None and token.expires_at <= utc_now():
            return f"The token {token.name!r} has expired, at {token.expires_at}."
        return ""

    # Projects

    async def projects(self, caller: Caller) -> list[ProjectView]:
        """Return all projects, sorted by name.

        Raises:
            ForbiddenError: The caller may not manage.
        """
        self._must_manage(caller)
        await self._book.refresh()
        return [self._view(name) for name in sorted(self.project_names())]

    async def project(self, caller: Caller, name: str) -> ProjectView:
        """Return a project; `default` is that of requests without a project.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The project does not exist.
        """
        self._must_manage(caller)
        await self._book.refresh()
        if name != DEFAULT_PROJECT:
            self._project(name)
        return self._view(name)

    async def save_project(
        self,
        caller: Caller,
        name: str,
        *,
        settings: Mapping[str, object] | None = None,
        new: bool = False,
    ) -> ProjectView:
        """Create a project or change its settings; None resets a key to the common setting.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The name is taken or invalid, or a setting is invalid. For `default`,
                only search, listing, budget and pinned tools can be set.
        """
        self._must_manage(caller)
        await self._book.refresh()
        if name == DEFAULT_PROJECT:
            check_default_settings(settings or {})
        elif not is_project_name(name):
            raise ArgumentError(
                f"A project cannot be called {name[:80]!r}.",
                allowed="Allowed: up to 64 characters of A-Z a-z 0-9 _ . -, the first no sign;"
                " not default, not UNASSIGNED.",
            )
        if name in self._of_file():
            raise ArgumentError(
                f"The project {name!r} is defined in {self._config_file()}, which Toolgate does not"
                " change.",
                hint=f"Change [project.{name}] there.",
            )
        stored = self._book.snapshot.projects.get(name)
        if new and stored is not None:
            raise ArgumentError(
                f"There is a project {name!r} already.",
                hint=f"Change it with: toolgate projects set {name}",
            )
        if not new and stored is None and name != DEFAULT_PROJECT:
            self._project(name)
        merged: Json = {**(stored.settings if stored else {}), **(settings or {})}
        merged = {key: value for key, value in merged.items() if value not in (None, "")}
        check_project_settings(merged)
        check_project_search(merged, self._settings())
        async with self._change(caller, "project_save", {"project": name, "settings": merged}):
            await self._store.projects.save(StoredProject(project_id=name, settings=merged))
        await self._book.refresh()
        return self._view(name)

    async def delete_project(self, caller: Caller, name: str) -> None:
        """Delete a project that has no servers.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The project does not exist, is declared in a file, or has servers.
        """
        self._must_manage(caller)
        await self._book.refresh()
        self._project(name)
        if name in self._of_file():
            raise ArgumentError(
                f"The project {name!r} is defined in {self._config_file()}.",
                hint=f"Remove [project.{name}] there.",
            )
        servers = self._servers_of(name)
        if servers:
            # If its project were deleted, a server would be shared by all projects.
            raise ArgumentError(
                f"The project {name!r} has servers: {', '.join(servers)}.",
                hint=f"Remove them, or run: toolgate projects set {name} --no-servers",
            )
        async with self._change(caller, "project_delete", {"project": name}):
            # Their vectors may be in another database.
            await self._delete_documents(name)
            await self._store.projects.delete(name)
        await self._book.refresh()

    def project_names(self) -> set[str]:
        """Return the names of all projects except the default one."""
        stored = {name for name in self._book.snapshot.projects if is_project_name(name)}
        return stored | set(self._of_file())

    def check_project(self, name: str) -> None:
        """Refuse a project that does not exist.

        Raises:
            ArgumentError: The project does not exist.
        """
        self._project(name)

    # Permissions

    async def permissions(self, caller: Caller) -> list[AccessRule]:
        """Return all rules: those of the file, then those of the store.

        Raises:
            ForbiddenError: The caller may not manage.
        """
        self._must_manage(caller)
        await self._book.refresh()
        return [*self._rules_of_file(), *self._book.snapshot.rules]

    async def add_permissions(
        self,
        caller: Caller,
        *,
        effect: str,
        patterns: Sequence[str],
        to: Sequence[str],
        hint: str = "",
    ) -> list[AccessRule]:
        """Create rules: each pattern for each subject in `to`.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: A pattern, subject, effect or hint is invalid.
        """
        self._must_manage(caller)
        if not patterns or not to or effect not in {"allow", "deny"}:
            raise ArgumentError(
                "The rule lacks an effect, patterns, or people that it is for.",
                allowed="Effects: allow, deny.",
            )
        if hint not in {"", "read_only", "destructive"}:
            raise ArgumentError(
                f"The hint is {hint[:40]!r}.", allowed="Allowed: read_only, destructive."
            )
        rows = self._rows(effect, patterns, to, hint)
        detail: Json = {"effect": effect, "patterns": list(patterns), "to": list(to), "hint": hint}
        async with self._change(caller, "permission_add", detail):
            await self._store.access.save_permissions(rows)
        await self._book.refresh()
        ids = {row.permission_id for row in rows}
        return [rule for rule in self._book.snapshot.rules if rule.permission_id in ids]

    async def remove_permissions(self, caller: Caller, permission_ids: Sequence[str]) -> int:
        """Delete rules of the store by id; return how many were deleted.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: None of the ids exists.
        """
        self._must_manage(caller)
        async with self._change(caller, "permission_remove", {"ids": list(permission_ids)}):
            count = await self._store.access.delete_permissions(permission_ids)
            if not count:
                raise ArgumentError(
                    f"There is no rule {', '.join(permission_ids)[:80]!r} in the store.",
                    hint="See: toolgate permissions list",
                )
        await self._book.refresh()
        return count

    # Guards

    async def guards(self, caller: Caller) -> list[tuple[str, GuardTable]]:
        """Return all guards with their ids: those of the file (no id), then those of the store.

        Raises:
            ForbiddenError: The caller may not manage.
        """
        self._must_manage(caller)
        await self._book.refresh()
        return list(self._guards())

    async def add_guard(self, caller: Caller, settings: Json) -> tuple[str, GuardTable]:
        """Create a guard from the keys of `[[guard]]`; return its id and the guard.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The guard is invalid, has no effect or exists already.
        """
        self._must_manage(caller)
        row = StoredGuard(guard_id=new_id(), settings=settings, created_at=utc_now())
        try:
            table = self._read_guard(row)
        except SettingError as error:
            raise ArgumentError(error.failed, allowed=error.allowed, hint=error.hint) from error
        for pattern in table.tools:
            if parse_pattern(pattern)[0] not in {"any", "server", "tool"}:
                raise ArgumentError(
                    f"{pattern[:80]!r} names neither tools nor a server.",
                    allowed="Allowed: *, SERVER, SERVER:TOOL; * and ? stand for any text and any"
                    " character.",
                )
        if not _does_anything(table):
            raise ArgumentError("The guard does nothing.", allowed=f"Allowed: {', '.join(_DOES)}.")
        for project in table.projects:
            if project != DEFAULT_PROJECT:
                self._project(project)
        for _, existing in await self.guards(caller):
            if replace(existing, source=table.source) == table:
                raise ArgumentError(
                    f"The same guard exists already: {existing.source or 'the settings'}.",
                    hint="See: toolgate guards list",
                )
        detail: Json = {"guard": row.guard_id, "settings": settings}
        async with self._change(caller, "guard_add", detail):
            await self._store.access.save_guard(row)
        await self._book.refresh()
        return row.guard_id, table

    async def remove_guard(self, caller: Caller, guard_id: str) -> None:
        """Delete a guard of the store. A guard of the file can only be deleted there.

        Raises:
            ForbiddenError: The caller may not manage.
            ArgumentError: The guard does not exist.
        """
        self._must_manage(caller)
        async with self._change(caller, "guard_remove", {"guard": guard_id}):
            if not await self._store.access.delete_guards([guard_id]):
                raise ArgumentError(
                    f"There is no guard {guard_id[:80]!r} in the store.",
                    hint="See: toolgate guards list",
                )
        await self._book.refresh()

    # Shared helpers

    def _must_manage(self, caller: Caller) -> None:
        if not self._access.decide(caller, "right", "manage").allowed:
            raise ForbiddenError(
                f"{caller.caller_id!r} may not manage tokens, projects and permissions.",
                hint="Ask an administrator, or for the role admin.",
            )

    async def _token(self, word: str) -> StoredToken:
        tokens = {token.prefix: token for token in await self._book.tokens_with_use()}
        prefix = word[:11]
        token = tokens.get(prefix) if word.startswith("tg_") else None
        if token is not None and word not in {prefix, f"{prefix}…"}:
            token = token if digest_of(word) == token.digest else None
        if token is None:
            token = next(
                (token for token in tokens.values() if word in {token.name, token.token_id}), None
            )
        if token is None:
            names = [token.name for token in tokens.values()]
            near = get_close_matches(word, names, n=1)
            # The input may be a whole token: show only its prefix.
            raise ArgumentError(
                f"There is no token {prefix!r}."
                if word.startswith("tg_")
                else f"There is no token {word[:60]!r}.",
                hint=f"Did you mean {near[0]!r}?" if near else "See: toolgate tokens list",
            )
        return token

    def _project(self, name: str) -> None:
        names = self.project_names()
        if name not in names:
            near = get_close_matches(name, names, n=1)
            raise ArgumentError(
                f"There is no project {name[:60]!r}.",
                allowed=f"Projects: {', '.join(sorted(names)[:20]) or 'none'}.",
                hint=f"Did you mean {near[0]!r}?"
                if near
                else f"Make it with: toolgate projects create {name[:60]}",
            )

    def _view(self, name: str) -> ProjectView:
        of_file = self._of_file().get(name)
        stored = self._book.snapshot.projects.get(name)
        return ProjectView(
            name=name,
            servers=tuple(self._servers_of(name)),
            settings=of_file or project_table(stored.settings if stored else {}),
            source=self._config_file() if of_file is not None else "store",
        )

    def _rows(
        self, effect: str, patterns: Sequence[str], to: Sequence[str], hint: str
    ) -> list[StoredPermission]:
        return [
            StoredPermission(
                permission_id=new_id(),
                effect="allow" if effect == "allow" else "deny",
                who=check_who(who),
                kind=kind,
                pattern=pattern,
                hint=hint,
                created_at=utc_now(),
            )
            for kind, pattern in map(parse_pattern, patterns)
            for who in to
        ]


_DOES: Sequence[str] = (
    *("arguments", "deny", "sql", "max_argument_bytes", "max_result_bytes"),
    *("secrets_in_arguments", "secrets_in_results", "approver"),
)
"""Keys of which a guard needs at least one to have an effect."""


def _does_anything(table: GuardTable) -> bool:
    return any(getattr(table, key) for key in _DOES)
