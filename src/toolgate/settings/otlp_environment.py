"""OpenTelemetry's environment variables for sending spans.

The variables and rules of the OpenTelemetry libraries: the variable for traces has precedence
over the general one. https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import unquote
from uuid import uuid4

from toolgate.settings.folders import current_environment

log = logging.getLogger(__name__)

Compression = Literal["", "gzip", "deflate"]

_MOST_S = 60.0
"""Seconds (chosen: a longer wait would delay the end of the process)."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, kw_only=True)
class OtlpVariables:
    """Where and how spans are sent, except for the address."""

    resource: Mapping[str, str]
    """Attributes of this process; see `service_attributes`."""

    headers: Mapping[str, str]
    """Additional headers of each request."""

    timeout_s: float
    """Seconds for sending a batch, including retries, at most 60. The variable is in seconds, as
    in the OpenTelemetry library for Python."""

    compression: Compression
    """Compression of the bodies; empty: none."""

    ca: str
    """File with trusted certificate authorities; empty: those of the system."""

    cert: str
    """File with a client certificate."""

    key: str
    """File with the key of the client certificate."""

    queue: int
    """Largest number of queued spans."""

    batch: int
    """Largest number of spans per request."""

    delay_s: float
    """Seconds between two requests, unless a batch is full earlier."""


def otlp_variables(environ: Mapping[str, str] | None = None) -> OtlpVariables:
    """Read the variables; unusable values are logged and ignored."""
    environment = current_environment() if environ is None else environ

    def variable(name: str) -> str:
        value = environment.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environment.get(
            f"OTEL_EXPORTER_OTLP_{name}", ""
        )
        return value.strip()

    def number(name: str, default: float) -> float:
        text = environment.get(name, "").strip()
        try:
            parsed = float(text or default)
        except ValueError:
            parsed = -1.0
        if 0 < parsed < 1e9:
            return parsed
        log.warning("variable cannot be used", extra={"variable": name, "value": text})
        return default

    protocol = variable("PROTOCOL")
    if protocol not in {"", "http/json"}:
        log.warning("spans are sent as OTLP over HTTP in JSON", extra={"asked_for": protocol})
    timeout = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"
    if not environment.get(timeout):
        timeout = "OTEL_EXPORTER_OTLP_TIMEOUT"
    queue = max(1, int(number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)))
    return OtlpVariables(
        resource=service_attributes(environment),
        headers={
            name.lower(): value
            for name, value in _pairs(variable("HEADERS"), "OTEL_EXPORTER_OTLP_HEADERS")
            if _NAME.fullmatch(name) and _VALUE.fullmatch(value)
        },
        timeout_s=min(_MOST_S, number(timeout, 10.0)),
        compression=_compression(variable("COMPRESSION")),
        ca=variable("CERTIFICATE"),
        cert=variable("CLIENT_CERTIFICATE"),
        key=variable("CLIENT_KEY"),
        queue=queue,
        batch=min(queue, max(1, int(number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)))),
        delay_s=number("OTEL_BSP_SCHEDULE_DELAY", 5_000) / 1000,
    )


def service_attributes(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the attributes of this process; those of the environment have precedence.

    `service.name` is `toolgate`; `service.instance.id` is random for each process, such as each
    of several workers, so that the metrics of two processes are not mixed up:
    https://opentelemetry.io/docs/specs/semconv/resource/#service
    """
    environment = current_environment() if environ is None else environ
    attributes = dict(
        _pairs(environment.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES")
    )
    name = environment.get("OTEL_SERVICE_NAME") or attributes.get("service.name") or "toolgate"
    instance_id = attributes.get("service.instance.id") or _instance_id()
    return attributes | {"service.name": name, "service.instance.id": instance_id}


@cache
def _instance_id() -> str:
    return str(uuid4())


def _compression(text: str) -> Compression:
    match text.lower():
        case "gzip" | "deflate" as method:
            return method
        case "" | "none":
            return ""
        case _:
            log.warning("compression is not known; none is used", extra={"compression": text})
            return ""


def _pairs(text: str, variable: str) -> list[tuple[str, str]]:
    """Parse `key=value,key=value` with URL-encoded values (`%20`)."""
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip():
            pairs.append((unquote(key).strip(), unquote(value).strip()))
        elif part.strip():
            # Do not log the part itself: it may be a piece of a secret.
            log.warning("part of a variable cannot be used", extra={"variable": variable})
    return pairs
