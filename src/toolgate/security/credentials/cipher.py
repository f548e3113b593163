"""AES-256-GCM; the only module that loads `cryptography` for credentials."""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# NIST SP 800-38D, section 5.2.1.1: 96 bits.
_NONCE_BYTES = 12


def encrypt(key: bytes, text: bytes, associated_data: bytes) -> bytes:
    """Encrypt a text, readable only with the key and the same associated data."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, text, associated_data)


def decrypt(key: bytes, sealed: bytes, associated_data: bytes) -> bytes | None:
    """Decrypt a text of `encrypt`; None: wrong key or associated data, or the text is damaged."""
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated_data)
    except (InvalidTag, ValueError):
        return None
