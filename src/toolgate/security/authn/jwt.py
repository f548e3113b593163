"""Authenticates JWTs of an identity provider, with its published keys.

PyJWT does the cryptography. Only asymmetric algorithms are ever accepted, so a token that is
unsigned, or signed with a published key as if that were a secret, is refused.
"""

import base64
import binascii
import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import urlsplit

import aiohttp
import anyio
import jwt

from toolgate.base import json_text
from toolgate.base.ids import utc_now, utc_text_of
from toolgate.errors import CredentialError, OptionError
from toolgate.types import Identity, Json, json_array, json_object

log = logging.getLogger(__name__)

_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
# Seconds to fetch the provider's keys. Chosen: a request waits for them.
_FETCH_S = 5.0
_AGAIN_S = 10.0
"""Seconds before keys are fetched again because a token names an unknown one."""
# Bytes of a token. Chosen: servers refuse headers beyond 8 to 16 KiB.
_LONGEST = 16 * 2**10
# Number of verified tokens that are cached. Chosen.
_KEPT = 10_000
_KEPT_S = 60.0
"""Seconds until a verified token is verified again."""
# Bytes of the provider's metadata or keys. Chosen.
_MOST_BYTES = 2**20
_LONGEST_USER = 200
"""Characters of a user's name; the rest is cut off (chosen)."""
_LAST_SECOND = 253_402_300_799
"""Unix time of the last second of the year 9999."""
_MISLEADING: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Control characters, halves of surrogate pairs, and characters that are invisible or change the
direction of a text. Joiners are allowed: names in Persian and Indic scripts need them."""
_OURS = frozenset({"admin", "member", "reader"})
"""Roles with built-in rules: a role of the same name at the provider does not grant them."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[authn.options.jwt]`."""

    issuer: str
    """Address of the provider, exactly as `iss` in its tokens says."""

    audience: tuple[str, ...]
    """Accepted values of `aud`: the provider's names for this gateway."""

    jwks_url: str = ""
    """Address of its keys; empty: taken from its metadata."""

    algorithms: tuple[str, ...] = ("RS256", "ES256", "PS256", "EdDSA")
    """Accepted signature algorithms."""

    skew_s: float = 60.0
    """Seconds by which clocks may differ; 0 to 600."""

    jwks_ttl_s: float = 600.0
    """Seconds after which keys are fetched again; 10 to 86,400."""

    user_claim: str = "sub"
    """The claim that names the user."""

    projects_claim: str = ""
    """The claim with projects; empty: no token gets a project from a claim."""

    roles_claim: str = ""
    """The claim with roles; dots lead into objects, such as `realm_access.roles`."""

    groups_claim: str = ""
    """The claim with groups."""

    projects: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of projects in Toolgate by values of the claim; other values are used unchanged."""

    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    """Roles in Toolgate by values of the claim. The roles `admin`, `member` and `reader` are
    granted only if they are listed here; other values are used unchanged."""

    default_projects: tuple[str, ...] = ()
    """Projects of tokens that name none."""

    def __post_init__(self) -> None:
        """Refuse unsafe options."""
        for name, address in (("issuer", self.issuer), ("jwks_url", self.jwks_url)):
            if address and not _is_safe(address):
                raise _wrong(name, address, "https://…, or http:// on this machine")
        if not self.issuer or not self.audience:
            name = "audience" if self.issuer else "issuer"
            raise _wrong(name, "", "what the provider's tokens say")
        unknown = [name for name in self.algorithms if name not in _ALGORITHMS]
        if unknown or not self.algorithms:
            raise _wrong("algorithms", ", ".join(unknown), ", ".join(sorted(_ALGORITHMS)))
        for name, value, low, high in (
            ("skew_s", self.skew_s, 0, 600),
            ("jwks_ttl_s", self.jwks_ttl_s, 10, 86_400),
        ):
            if not low <= value <= high:
                raise _wrong(name, f"{value:g}", f"{low:,} to {high:,}")


def build(options: Options) -> "JwtAuthenticator":
    """Create an authenticator for the tokens of one provider."""
    return JwtAuthenticator(options)


class JwtAuthenticator:
    """Verifies signature, issuer, audience and times; reads claims."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._keys: dict[str, Any] = {}
        self._fetched_at = -1e9
        self._tried_at = -1e9
        self._fetching = anyio.Lock()
        self._http: aiohttp.ClientSession | None = None
        self._checked: OrderedDict[bytes, tuple[float, Identity]] = OrderedDict()

    @property
    def issuers(self) -> tuple[str, ...]:
        """The address of the provider."""
        return (self._options.issuer,)

    async def identify(self, credential: str) -> Identity | None:
        """Return the identity of a token of this provider; None if it is another's.

        Raises:
            CredentialError: The token claims to be of this provider, but is invalid.
        """
        # The cache holds hashes, so a memory dump shows no tokens.
        mark = hashlib.sha256(credential.encode(errors="surrogatepass")).digest()
        checked = self._checked.get(mark)
        if checked is not None and checked[0] > monotonic():
            # A token may expire while its result is cached.
            self._refuse_expired(checked[1])
            return checked[1]
        parts = credential.split(".")
        if len(parts) != 3 or len(credential) > _LONGEST:
            return None
        header, claims = _part(parts[0]), _part(parts[1])
        # Unverified claims only decide whose token it is; another authenticator may recognize it.
        if header is None or claims is None or claims.get("iss") != self._options.issuer:
            return None
        identity = self._identity(await self._verified(credential, header))
        self._checked[mark] = (monotonic() + _KEPT_S, identity)
        if len(self._checked) > _KEPT:
            self._checked.popitem(last=False)
        return identity

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    def _refuse_expired(self, identity: Identity) -> None:
        if identity.expires_at is not None and identity.expires_at <= utc_now(
            plus_s=-self._options.skew_s
        ):
            raise _expired()

    async def _verified(self, credential: str, header: Json) -> Json:
        options = self._options
        # The attacker controls the header: RFC 8725 section 3.1 requires our own list.
        if header.get("alg") not in options.algorithms:
            raise _bad(
                f"it is signed with {str(header.get('alg'))[:20]!r}",
                f"Allowed: {', '.join(options.algorithms)}.",
            )
        key = await self._key(str(header.get("kid") or ""))
        try:
            claims = jwt.decode(
                credential,
                key.key,
                algorithms=list(options.algorithms),
                audience=list(options.audience),
                issuer=options.issuer,
                leeway=options.skew_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise _expired() from error
        except jwt.InvalidAudienceError as error:
            raise _bad(
                "it was made for another audience",
                "Ask the identity provider for one whose audience is this gateway.",
            ) from error
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            reason = "its signature or its claims are wrong"
            raise _bad(reason, "Get a fresh one from your identity provider.") from error
        if not claims.get("sub"):
            # Without it, all such tokens of a provider would be one caller and share their
            # sessions.
            raise _bad("it names no subject (sub)", "Have the identity provider include sub.")
        if not claims["sub"].isprintable():
            # Half of a surrogate pair cannot be hashed; control characters garble what people read.
            raise _bad(
                "its subject (sub) contains characters that cannot be shown",
                "Have the identity provider name the user otherwise.",
            )
        if _MISLEADING.search(self._user(claims)):
            # People who approve calls would see another name, or further lines.
            raise _bad(
                f"its user ({self._options.user_claim}) contains characters that control or hide"
                " text",
                "Have the identity provider name the user otherwise.",
            )
        return claims

    async def _key(self, kid: str) -> Any:
        """Return the key that a token names; fetch keys again if it is unknown.

        Raises:
            CredentialError: The key does not exist, or the provider cannot be asked.
        """
        is_old = monotonic() - self._fetched_at > self._options.jwks_ttl_s
        if (is_old or self._chosen(kid) is None) and monotonic() - self._tried_at > _AGAIN_S:
            async with self._fetching:
                # Checked again inside the lock: whoever waited finds the keys already fetched.
                if monotonic() - self._tried_at > _AGAIN_S:
                    self._tried_at = monotonic()
                    await self._fetch()
        key = self._chosen(kid)
        if key is None:
            raise _bad(
                "it is signed with a key that the identity provider does not publish"
                if self._keys
                else "the keys of the identity provider cannot be read now",
                "Get a fresh one from your identity provider, or try again later.",
            )
        return key

    def _chosen(self, kid: str) -> Any:
        # `kid` is optional (RFC 7515 section 4.1.4), and a single key needs no name.
        if not kid and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _fetch(self) -> None:
        try:
            url = self._options.jwks_url or await self._jwks_url()
            keys = json_array((await self._get(url)).get("keys"))
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            # Known keys remain in use: an unavailable provider must not lock everybody out.
            log.warning("keys of the identity provider cannot be read", extra={"error": str(error)})
            return
        by_id: dict[str, Any] = {}
        for key in keys:
            entry = json_object(key)
            # `oct` is a symmetric key: anybody who reads the key set could sign with it.
            if entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
                continue
            try:
                by_id[str(entry.get("kid") or "")] = jwt.PyJWK(entry)
            except jwt.PyJWTError:
                continue  # an unsupported kind of key
        self._keys = by_id
        self._fetched_at = monotonic()
        self._checked.clear()  # a withdrawn key invalidates its tokens

    async def _jwks_url(self) -> str:
        """Return the key address of the provider's metadata (OpenID Discovery, RFC 8414)."""
        issuer = self._options.issuer.rstrip("/")
        parts = urlsplit(issuer)
        inserted = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server"
        for url in (f"{issuer}/.well-known/openid-configuration", inserted + parts.path):
            try:
                metadata = await self._get(url)
            except (aiohttp.ClientResponseError, ValueError):
                continue
            jwks_url = str(metadata.get("jwks_uri") or "")
            if str(metadata.get("issuer")).rstrip("/") == issuer and _is_safe(jwks_url):
                return jwks_url
        raise ValueError(f"{issuer} publishes no metadata that names its keys")

    async def _get(self, url: str) -> Json:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=_FETCH_S), trust_env=True
            )
        # A redirect could lead to keys that let anybody in.
        async with self._http.get(url, allow_redirects=False) as response:
            response.raise_for_status()
            if response.status != 200:
                raise ValueError(f"{url} answered with status {response.status}")
            body = b""
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise ValueError(f"{url} answered with more than {_MOST_BYTES:,} bytes")
        return json_object(json_text.loads(body))

    def _identity(self, claims: Json) -> Identity:
        options = self._options
        subject = str(claims["sub"])
        # Including the issuer: the same `sub` at two providers is two people.
        mark = hashlib.sha256(f"{options.issuer}\0{subject}".encode()).hexdigest()[:24]
        projects = [
            options.projects.get(name, name) for name in _words(claims, options.projects_claim)
        ]
        return Identity(
            caller_id=f"jwt:{mark}",
            kind="jwt",
            user=self._user(claims),
            # `*` means all projects here; a claim of a provider must not grant that.
            projects=tuple(name for name in projects if name != "*") or options.default_projects,
            roles=tuple(self._roles(claims)),
            groups=tuple(_words(claims, options.groups_claim)),
            expires_at=utc_text_of(min(int(claims["exp"]), _LAST_SECOND)),
        )

    def _user(self, claims: Json) -> str:
        return str(_claim(claims, self._options.user_claim) or claims["sub"])[:_LONGEST_USER]

    def _roles(self, claims: Json) -> Sequence[str]:
        mapping = self._options.roles
        return [
            mapping.get(name, name)
            for name in _words(claims, self._options.roles_claim)
            if name in mapping or name not in _OURS
        ]


def _part(text: str) -> Json | None:
    """Decode a part of a token as unverified JSON; None if it is not valid."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value: object = json_text.loads(raw)
    except (ValueError, binascii.Error, RecursionError):
        return None
    return cast("Json", value) if isinstance(value, dict) else None


def _claim(claims: Json, path: str) -> object:
    """Return a claim; dots lead into objects, unless a claim has them in its own name."""
    if not path or path in claims:
        return claims.get(path)
    value: object = claims
    for name in path.split("."):
        value = json_object(value).get(name)
    return value


def _words(claims: Json, path: str) -> list[str]:
    """Return the values of a claim that is a list or a text of words separated by spaces."""
    value = _claim(claims, path)
    if isinstance(value, str):
        return value.split()
    return [word for word in json_array(value) if isinstance(word, str) and word]


def _is_safe(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    here = parts.hostname in {"127.0.0.1", "::1", "localhost"}
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and here))


def _expired() -> CredentialError:
    return CredentialError(
        "The token of the identity provider was refused: it has expired.",
        was_issued=True,
        hint="Get a fresh one from your identity provider.",
    )


def _bad(reason: str, hint: str) -> CredentialError:
    return CredentialError(f"The token of the identity provider was refused: {reason}.", hint=hint)


def _wrong(name: str, value: str, allowed: str) -> OptionError:
    return OptionError(
        f"Option {name!r} of authn 'jwt' is {value[:80]!r}.",
        allowed=f"Allowed: {allowed}.",
        hint="Correct it under authn.options.jwt.",
    )
