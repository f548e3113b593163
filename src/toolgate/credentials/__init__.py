"""What Toolgate shows to servers: logins, headers, variables; kept encrypted, renewed, never shown.

Knows no wire: `upstream` asks a `Presented` for headers and variables.
"""

from toolgate.credentials._configs import SealedConfigs, is_open
from toolgate.credentials._desk import Desk, Presented, shown_now
from toolgate.credentials._keychain import Keychain, Rotated
from toolgate.credentials._logins import (
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
from toolgate.credentials._sources import KeySource, key_source, source_of
from toolgate.credentials._vault import Kept, Vault
from toolgate.credentials._watch import LoginWatch
from toolgate.credentials._whose import EVERYBODY, key_of, shown_subject, subject_of

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
