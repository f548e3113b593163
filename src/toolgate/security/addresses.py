"""IP addresses as limits count them: an IPv4 address, or the IPv6 network of a client."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_IPV6_PREFIX_BITS = 64
"""The smallest network that an IPv6 customer gets; its addresses count as one client (RFC 6177)."""


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address; IPv4-mapped IPv6 becomes IPv4. None if the text is no address."""
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_network(text: str) -> str:
    """What a client is counted by: its IPv4 address, or the /64 network of its IPv6 address."""
    address = parse_address(text)
    if address is None:
        return text
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(ip_network((address, _IPV6_PREFIX_BITS), strict=False))
    return str(address)


def is_loopback(host: str) -> bool:
    """Whether a host is reachable from this machine only."""
    address = parse_address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)
