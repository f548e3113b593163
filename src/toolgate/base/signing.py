"""Signed opaque strings that clients return unaltered.

A signed string names its purpose and carries a small JSON payload. The key is the installation
key from the store, so every replica accepts the strings of the others.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

from toolgate.errors import HandleError
from toolgate.types import Json, json_object

_MAC_BYTES = 16
"""Length of the truncated MAC in bytes: 128 bits, as RFC 2104, section 5, allows for SHA-256."""
_VERSION = "tg1"


class Signer:
    """Signs and verifies small payloads with HMAC-SHA-256 (RFC 2104), truncated to 128 bits."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, payload: Json) -> str:
        """A string that `check` accepts for the same purpose: `tg1.<payload>.<mac>`, URL-safe."""
        body = _encode(json.dumps(payload, separators=(",", ":"), ensure_ascii=True).encode())
        return f"{_VERSION}.{body}.{_encode(self._mac(purpose, body))}"

    def signed(self, purpose: str, text: str) -> bool:
        """Whether a string was signed here for this purpose."""
        try:
            self.check(purpose, text)
        except HandleError:
            return False
        return True

    def check(self, purpose: str, text: str) -> Json:
        """The payload of a signed string.

        Raises:
            HandleError: The string was not signed here, was altered, or has another purpose.
        """
        try:
            version, body, mac = text.split(".")
            genuine = version == _VERSION and hmac.compare_digest(
                mac.encode(), _encode(self._mac(purpose, body)).encode()
            )
            payload = json_object(json.loads(_decode(body))) if genuine else None
        except (ValueError, Base64Error):
            payload = None
        if payload is None:
            raise HandleError(
                f"The {purpose} {text[:24]!r} was not issued by this gateway.",
                hint="Send it exactly as it came, or start again without it.",
            )
        return payload

    def _mac(self, purpose: str, body: str) -> bytes:
        message = f"{purpose}\0{body}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).digest()[:_MAC_BYTES]


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
