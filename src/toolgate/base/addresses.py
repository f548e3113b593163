"""IP addresses of clients as they are counted: an address, or the network that one client has."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

__all__ = ["client_network", "parse_address"]

_IPV6_PREFIX_BITS = 64
"""An IPv6 customer has at least this network, and all addresses in it (RFC 6177)."""


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address in a text; an IPv4 address that is mapped into IPv6 as IPv4; None: no address."""
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_network(text: str) -> str:
    """What to count a client by: its IPv4 address, or the /64 network of its IPv6 address."""
    address = parse_address(text)
    if address is None:
        return text
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(ip_network((address, _IPV6_PREFIX_BITS), strict=False))
    return str(address)
