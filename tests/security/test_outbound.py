"""Which addresses Toolgate connects to, and by which way."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as some

from toolgate.errors import SettingError, UnreachableError
from toolgate.security.credentials.oauth import OAuthClient
from toolgate.security.outbound import (
    CONFIGURED,
    LINK_LOCAL,
    LOOPBACK,
    PRIVATE,
    PUBLIC,
    AddressScope,
    ConnectionOptions,
    NotAllowedError,
    Outbound,
    level_of,
    proxy_for,
    refuse_by_text,
)
from toolgate.settings import OutboundSettings
from toolgate.types import ServerSpec

NOWHERE = OutboundSettings()


@pytest.mark.parametrize(
    ("address", "level"),
    [
        ("8.8.8.8", PUBLIC),
        ("2606:4700::1111", PUBLIC),
        ("10.1.2.3", PRIVATE),
        ("172.31.0.1", PRIVATE),
        ("192.168.1.1", PRIVATE),
        ("100.64.0.1", PRIVATE),
        ("fd00::1", PRIVATE),
        ("fec0::1", PRIVATE),
        ("feff::1", PRIVATE),
        ("127.0.0.1", LOOPBACK),
        ("127.9.9.9", LOOPBACK),
        ("0.0.0.0", LOOPBACK),
        ("::1", LOOPBACK),
        ("::", LOOPBACK),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("::ffff:10.0.0.1", PRIVATE),
        ("64:ff9b::7f00:1", LOOPBACK),
        ("64:ff9b:1::a00:1", PRIVATE),
        ("2002:7f00:1::", LOOPBACK),
        ("169.254.169.254", LINK_LOCAL),
        ("fe80::1%eth0", LINK_LOCAL),
        ("224.0.0.1", LINK_LOCAL),
        ("255.255.255.255", LINK_LOCAL),
    ],
)
def test_each_kind_of_address_is_known(address: str, level: int) -> None:
    assert level_of(address) == level


@given(some.ip_addresses())
def test_no_address_that_the_library_calls_private_counts_as_public(address: Any) -> None:
    if address.is_private or address.is_loopback or address.is_link_local:
        assert level_of(str(address)) > PUBLIC


@asynccontextmanager
async def answering(
    context: ssl.SSLContext | None = None, seen: list[web.BaseRequest] | None = None
) -> AsyncGenerator[int]:
    """A server on this machine that says yes to everything; gives its port."""

    async def answer(request: web.BaseRequest) -> web.Response:
        if seen is not None:
            seen.append(request)
        return web.Response(text="yes")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def outbound(**settings: Any) -> AsyncGenerator[Outbound]:
    clients = Outbound(OutboundSettings(**settings))
    try:
        yield clients
    finally:
        await clients.aclose()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("most", [PUBLIC, PRIVATE])
async def test_this_machine_is_not_reached_from_outside_whatever_it_is_called(
    host: str, most: int
) -> None:
    async with answering() as port, outbound() as clients:
        with pytest.raises(UnreachableError, match=r"may not be reached.*outbound\.allow"):
            await clients.fetch("GET", f"http://{host}:{port}/", reach=AddressScope(max_level=most))


async def test_a_name_that_stands_for_this_machine_later_does_not_lead_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: what counts is the address that is connected to."""
    answers = iter(["93.184.216.34", "127.0.0.1"])

    async def look_up(*_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", (next(answers), 0))]

    async with answering() as port, outbound() as clients:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
        url = f"http://tools.example:{port}/"
        assert (await clients.reach_from(url)).max_level == PUBLIC
        with pytest.raises(UnreachableError, match="may not be reached"):
            await clients.fetch("GET", url, reach=CONFIGURED)


@pytest.mark.parametrize("looked_up", [["10.0.0.7"], ["10.0.0.7", "93.184.216.34", "10.0.0.7"]])
async def test_a_name_that_is_private_for_a_moment_leads_to_no_private_address(
    monkeypatch: pytest.MonkeyPatch, looked_up: list[str]
) -> None:
    """Its server names an authorization server; its DNS says how private that may be."""
    metadata = {
        "resource": "http://tools.example/mcp",
        "authorization_servers": ["http://10.0.0.5/"],
    }

    async def answer(request: web.BaseRequest) -> web.Response:
        known = request.path.startswith("/.well-known/oauth-protected-resource")
        return web.json_response(metadata) if known else web.Response(status=404)

    answers, loop, reached = iter(looked_up), asyncio.get_running_loop(), list[str]()

    async def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        address = next(answers, "93.184.216.34") if host == "tools.example" else host
        return [(2, 1, 6, "", (address, 80))]

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    connect = loop.sock_connect

    async def connect_here(sock: Any, address: Any) -> None:
        reached.append(address[0])
        await connect(sock, runner.addresses[0])

    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    monkeypatch.setattr(loop, "sock_connect", connect_here)
    spec = ServerSpec(name="tools", kind="http", options={"url": "http://tools.example/mcp"})
    try:
        async with outbound() as clients:
            with pytest.raises(UnreachableError, match="may not be reached"):
                await OAuthClient(clients).discover(spec)
    finally:
        await runner.cleanup()
    assert "93.184.216.34" in reached
    assert "10.0.0.5" not in reached


async def test_what_an_administrator_wrote_or_allowed_is_reached() -> None:
    async with answering() as port, outbound(allow=("127.0.0.0/8", "::1")) as clients:
        url = f"http://127.0.0.1:{port}/"
        assert (
            await clients.fetch("GET", url, reach=AddressScope(max_level=PUBLIC))
        ).body == b"yes"
    async with answering() as port, outbound() as clients:
        for host in ("127.0.0.1", "localhost"):
            url = f"http://{host}:{port}/"
            assert (await clients.fetch("GET", url, reach=CONFIGURED)).status == 200
    async with answering() as port, outbound(allow=("localhost",)) as clients:
        url = f"http://localhost:{port}/"
        assert (await clients.fetch("GET", url, reach=AddressScope(max_level=PUBLIC))).status == 200


async def test_what_a_server_names_may_not_be_more_private_than_itself() -> None:
    async with outbound() as clients:
        assert (await clients.reach_from("http://localhost:1/")).max_level == LOOPBACK
        assert (await clients.reach_from("http://10.0.0.1/")).max_level == PRIVATE
        assert (await clients.reach_from("https://8.8.8.8/")).max_level == PUBLIC
        assert (await clients.reach_from("http://169.254.1.1/")).max_level == LOOPBACK


async def test_an_answer_is_read_to_a_limit_and_redirects_are_not_followed() -> None:
    async with outbound() as clients, answering() as port:
        assert (
            await clients.fetch("GET", f"http://127.0.0.1:{port}", reach=CONFIGURED)
        ).status == 200


# Proxies


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example/", "http://s:1"),
        ("http://api.example/", "http://p:1"),
        ("http://localhost:8000/", ""),
        ("http://127.0.0.1/", ""),
        ("https://in.corp.example/", ""),
        ("https://corp.example/", ""),
        ("https://notcorp.example/", "http://s:1"),
        ("http://10.2.3.4/", ""),
        ("http://11.2.3.4/", "http://p:1"),
    ],
)
def test_proxies_are_used_as_the_variables_say(url: str, proxy: str) -> None:
    variables = ("http://s:1", "http://p:1", (".corp.example", "10.0.0.0/8"))
    assert proxy_for(url, NOWHERE, variables) == proxy
    assert proxy_for(url, OutboundSettings(proxy="none"), variables) == ""
    assert proxy_for(url, NOWHERE, ("http://s:1", "http://p:1", ("*",))) == ""


def test_a_proxy_leads_nowhere_that_the_text_of_an_address_already_forbids() -> None:
    for url in ("http://127.0.0.1/", "http://0x7f000001/", "http://localhost/", "http://[::1]/"):
        with pytest.raises(NotAllowedError):
            refuse_by_text(url, AddressScope(max_level=PUBLIC), ())
    refuse_by_text("http://tools.example/", AddressScope(max_level=PUBLIC), ())


async def test_requests_go_through_the_proxy_that_is_set() -> None:
    seen: list[web.BaseRequest] = []
    async with answering(seen=seen) as port, outbound() as clients:
        proxy = ConnectionOptions(proxy=f"http://127.0.0.1:{port}")
        answer = await clients.fetch(
            "GET", "http://tools.example/mcp", reach=AddressScope(max_level=PUBLIC), options=proxy
        )
    assert answer.body == b"yes"
    assert [str(request.url) for request in seen] == ["http://tools.example/mcp"]


# Certificates


@dataclass
class Authority:
    """A certificate authority of a test."""

    folder: Path

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        self._serial = 1
        self.ca = self._written("ca.pem", self._signed(self._name, self._key.public_key(), True))

    def pair(self, name: str) -> tuple[Path, Path]:
        """A certificate for this machine, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self._written(f"{name}.pem", self._signed(subject, key.public_key(), False))
        raw = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path = self.folder / f"{name}.key"
        path.write_bytes(raw)
        return cert, path

    def _signed(self, subject: x509.Name, key: Any, is_ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        self._serial += 1
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(self._serial)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _written(self, name: str, certificate: x509.Certificate) -> Path:
        path = self.folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path


async def test_an_own_authority_and_a_certificate_of_our_own_open_a_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.pair("server"), authority.pair("client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*server)
    way = ConnectionOptions(ca=str(authority.ca), cert=str(client[0]), key=str(client[1]))
    async with answering(context) as port, outbound() as clients:
        url = f"https://127.0.0.1:{port}/"
        assert (await clients.fetch("GET", url, reach=CONFIGURED, options=way)).body == b"yes"
        with pytest.raises(UnreachableError, match="not trusted \\(self-signed"):
            await clients.fetch("GET", url, reach=CONFIGURED)
        with pytest.raises(UnreachableError):  # our certificate is not shown to others
            await clients.fetch("GET", url, reach=CONFIGURED, options=way.elsewhere)


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    clients = Outbound(NOWHERE)
    with pytest.raises(SettingError, match=r"nowhere\.pem cannot be used"):
        clients.context_of(ConnectionOptions(ca=str(tmp_path / "nowhere.pem")))
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate", encoding="ascii")
    with pytest.raises(SettingError, match="certificate and its key"):
        clients.context_of(ConnectionOptions(cert=str(broken)))
