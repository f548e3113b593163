"""One-time codes by which a person confirms an approval outside the console."""

import hashlib
import hmac
from base64 import b32encode
from collections import OrderedDict

from toolgate.base.signing import Signer
from toolgate.errors import ForbiddenError

_PURPOSE = "approval code"
_CODE_CHARS = 8
"""Characters of a code, 5 bits each; chosen: 5 attempts succeed with a chance of 1 in 2 * 10^11."""
_MAX_ATTEMPTS = 5
"""Wrong codes after which no more are checked; chosen."""
_MAX_REMEMBERED = 10_000
"""Largest number of approvals whose wrong codes are counted; chosen."""


class ApprovalCodes:
    """Derives the code of each approval from the installation key, so that no code is stored.

    An approval is decided once, so its code can be used once. All replicas derive the same code.
    """

    def __init__(self, signer: Signer) -> None:
        """Use the installation key.

        Args:
            signer: Creates the same signatures in all replicas.
        """
        self._signer = signer
        self._wrong: OrderedDict[str, int] = OrderedDict()

    def code_of(self, approval_id: str) -> str:
        """Return the code of an approval, such as `K7Q2-9XMD`."""
        signed = self._signer.sign(_PURPOSE, {"id": approval_id})
        text = b32encode(hashlib.sha256(signed.encode()).digest()).decode()[:_CODE_CHARS]
        return f"{text[:4]}-{text[4:]}"

    def check(self, approval_id: str, code: str, *, page: str) -> None:
        """Refuse a wrong code; case, spaces and hyphens do not matter.

        Args:
            approval_id: The approval.
            code: The code that was entered.
            page: Where a person can read the code.

        Raises:
            ForbiddenError: The code is missing or wrong, or there were too many wrong ones
                before.
        """
        if not code:
            raise ForbiddenError(
                "To approve your own call, you need its one-time code.",
                hint=f"Read the code on {page} and give it: --code CODE, or the member code.",
            )
        if self._wrong.get(approval_id, 0) >= _MAX_ATTEMPTS:
            raise ForbiddenError(
                f"{_MAX_ATTEMPTS} wrong codes were given for this approval.",
                hint=f"Approve or reject the call on {page}.",
            )
        if not hmac.compare_digest(_plain(code), _plain(self.code_of(approval_id))):
            self._wrong[approval_id] = self._wrong.get(approval_id, 0) + 1
            self._wrong.move_to_end(approval_id)
            if len(self._wrong) > _MAX_REMEMBERED:
                self._wrong.popitem(last=False)
            raise ForbiddenError(
                "This is not the code of this approval.", hint=f"Read the code on {page}."
            )


def _plain(code: str) -> bytes:
    return code.upper().replace("-", "").replace(" ", "").encode(errors="replace")
