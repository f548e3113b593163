"""Credentials for servers: logins, headers, variables; encrypted, renewed, never displayed.

Independent of transports: `upstream` asks a `ConnectionCredential` for headers and variables.
"""

from toolgate.security.credentials.credential_values import (
    SECRETS,
    current_values,
    secrets_credential,
    static_credential,
    stored_secrets,
    with_values,
)
from toolgate.security.credentials.key_sources import KeySource, key_source, source_of
from toolgate.security.credentials.keychain import Keychain, KeyRotation
from toolgate.security.credentials.login_links import PAGE, LoginLinks
from toolgate.security.credentials.login_view import LoginPage, LoginRights, LoginView, StartedLogin
from toolgate.security.credentials.logins import (
    CALLBACK,
    DOCUMENT,
    Logins,
    is_browser_mark,
)
from toolgate.security.credentials.provider import ConnectionCredential, CredentialProvider
from toolgate.security.credentials.sealed_configs import SealedConfigs, has_plain_secrets
from toolgate.security.credentials.subject import EVERYBODY, describe_subject, key_of, subject_of
from toolgate.security.credentials.vault import DecryptedCredential, Vault
from toolgate.security.credentials.watcher import CredentialWatcher

__all__ = [
    "CALLBACK",
    "DOCUMENT",
    "EVERYBODY",
    "PAGE",
    "SECRETS",
    "ConnectionCredential",
    "CredentialProvider",
    "CredentialWatcher",
    "DecryptedCredential",
    "KeyRotation",
    "KeySource",
    "Keychain",
    "LoginLinks",
    "LoginPage",
    "LoginRights",
    "LoginView",
    "Logins",
    "SealedConfigs",
    "StartedLogin",
    "Vault",
    "current_values",
    "describe_subject",
    "has_plain_secrets",
    "is_browser_mark",
    "key_of",
    "key_source",
    "secrets_credential",
    "source_of",
    "static_credential",
    "stored_secrets",
    "subject_of",
    "with_values",
]
