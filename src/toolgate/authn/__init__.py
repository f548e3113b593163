"""How somebody proves who they are. One file per way; the settings say which are asked."""

from toolgate.authn._opaque import digest_of, identity_of, new_prefix, new_token
from toolgate.authn.base import Authenticator

__all__ = ["Authenticator", "digest_of", "identity_of", "new_prefix", "new_token"]
