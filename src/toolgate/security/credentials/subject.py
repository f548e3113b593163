"""Whose credential a call uses: everybody's, a project's, or a user's."""

from toolgate.errors import ArgumentError
from toolgate.store import CredentialKey
from toolgate.types import DEFAULT_PROJECT, Caller, ServerSpec

EVERYBODY = ""
"""The subject of credentials that all calls share."""

_USER, _CALLER, _PROJECT = "user:", "caller:", "project:"


def subject_of(spec: ServerSpec, caller: Caller) -> str:
    """Return whose credential is used for a caller's calls to a server."""
    match spec.credentials.per:
        case "server":
            return EVERYBODY
        case "project":
            return subject_of_project(caller.project_id)
        case "user":
            # Elsewhere, users may be able to choose a name that a token has here. Only the caller
            # id, made of issuer and `sub` for JWTs, belongs to one user alone.
            subject = caller.identity.user_subject
            return subject if subject.startswith(_USER) else f"{_CALLER}{caller.caller_id}"


def subject_of_project(project: str) -> str:
    """Return the subject of a project."""
    return f"{_PROJECT}{project}"


def subject_named(spec: ServerSpec, *, user: str = "", project: str = "") -> str:
    """Return the subject for a user or project named by somebody who manages logins.

    Raises:
        ArgumentError: The server has no credentials of this kind.
    """
    per = spec.credentials.per
    if (user and per != "user") or (project and per != "project"):
        word = "user" if user else "project"
        raise ArgumentError(
            f"Server {spec.name!r} has no credentials of its own for each {word}.",
            allowed=f"Its credentials are per {per}.",
            hint=f'Leave {word} out, or set per = "{word}" under [server.{spec.name}.credentials].',
        )
    if user:
        return user if user.startswith(_CALLER) else f"{_USER}{user.removeprefix(_USER)}"
    return subject_of_project(project) if project else EVERYBODY


def key_of(server: str, subject: str, kind: str = "login") -> CredentialKey:
    """Return the row of a subject's credential; a project's credential is deleted with it."""
    if subject.startswith(_PROJECT):
        project = subject.removeprefix(_PROJECT)
        return CredentialKey(project_id=project, server=server, subject=subject, kind=kind)
    return CredentialKey(project_id=DEFAULT_PROJECT, server=server, subject=subject, kind=kind)


def describe_subject(subject: str) -> str:
    """Return a description of the subject for use in a sentence."""
    if not subject:
        return "everybody"
    kind, _, name = subject.partition(":")
    word = {"user": "user", "caller": "caller", "project": "project"}.get(kind, kind)
    return f"{word} {name!r:.80}"
