"""Whose credential a call shows."""

from toolgate.security.credentials.subject import subject_of
from toolgate.types import Caller, CredentialSpec, Identity, ServerSpec

SPEC = ServerSpec(name="notes", kind="http", credentials=CredentialSpec(type="oauth", per="user"))


def subject(identity: Identity) -> str:
    return subject_of(SPEC, Caller(caller_id=identity.caller_id, identity=identity))


def test_a_user_of_an_identity_provider_never_shows_the_credential_of_a_token_user() -> None:
    """Some providers let users choose the name that `user_claim` reads."""
    token = Identity(caller_id="token:1", kind="token", token="cli", user="anna", projects=())
    chosen_names = ("anna", "caller:token:1", "token:1", "")
    subjects = {
        subject(Identity(caller_id="jwt:1", kind="jwt", user=name, projects=()))
        for name in chosen_names
    }

    assert subject(token) == "user:anna"
    assert subjects == {"caller:jwt:1"}
