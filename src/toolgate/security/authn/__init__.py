"""Authenticators, one per file; the settings select which are used."""

from toolgate.security.authn._opaque_tokens import digest_of, identity_of, new_prefix, new_token
from toolgate.security.authn.base import Authenticator

__all__ = ["Authenticator", "digest_of", "identity_of", "new_prefix", "new_token"]
