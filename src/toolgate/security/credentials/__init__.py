"""What Toolgate shows to servers: logins, headers, variables; kept encrypted, renewed, never shown.

Knows no wire: `upstream` asks a `Presented` for headers and variables.
"""

from toolgate.security.credentials.key_sources import KeySource, key_source, source_of
from toolgate.security.credentials.keychain import Keychain, Rotated
from toolgate.security.credentials.logins import (
    CALLBACK,
    DOCUMENT,
    LOGIN_COOKIE,
    PAGE,
    Begun,
    LoginPage,
    Logins,
    LoginView,
    Rights,
    is_browser_mark,
)
from toolgate.security.credentials.provider import Desk, Presented, shown_now
from toolgate.security.credentials.sealed_configs import SealedConfigs, is_open
from toolgate.security.credentials.subject import EVERYBODY, key_of, shown_subject, subject_of
from toolgate.security.credentials.vault import Kept, Vault
from toolgate.security.credentials.watcher import LoginWatch

__all__ = [
    "CALLBACK",
    "DOCUMENT",
    "EVERYBODY",
    "LOGIN_COOKIE",
    "PAGE",
    "Begun",
    "Desk",
    "Kept",
    "KeySource",
    "Keychain",
    "LoginPage",
    "LoginView",
    "LoginWatch",
    "Logins",
    "Presented",
    "Rights",
    "Rotated",
    "SealedConfigs",
    "Vault",
    "is_browser_mark",
    "is_open",
    "key_of",
    "key_source",
    "shown_now",
    "shown_subject",
    "source_of",
    "subject_of",
]
