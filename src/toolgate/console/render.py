"""Renders pages from templates."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from importlib.resources import files
from itertools import groupby
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import toolgate
from toolgate.base.token_estimate import estimate_tokens
from toolgate.console import safe_text
from toolgate.console.charts import bars, lines, share_bar, trendline
from toolgate.console.navigation import WITHIN, MenuPage, menu_of
from toolgate.console.request import FLASH_COOKIE, PageRequest
from toolgate.console.sessions import cookie_of
from toolgate.settings import redact
from toolgate.types import json_object, relevance_text

STATIC = {
    "chat.js": "text/javascript",
    "console.css": "text/css",
    "console.js": "text/javascript",
    "favicon.svg": "image/svg+xml",
    "htmx.min.js": "text/javascript",
}
"""Static files, with their content types."""

_FOLDER = files("toolgate.console").joinpath("static")


class Renderer:
    """Renders templates, with escaping in all of them."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader("toolgate.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        filters = {
            "action": safe_text.action,
            "ago": safe_text.ago,
            "asdict": asdict,
            "breakable": safe_text.breakable,
            "coded": safe_text.coded,
            "compact": safe_text.compact,
            "count": safe_text.count,
            "cut": safe_text.cut,
            "duration": safe_text.duration,
            "groups": _groups,
            "hushed": _hushed,
            "json": _pretty,
            "plain": safe_text.plain,
            "relevance": relevance_text,
            "share": safe_text.share,
            "size": safe_text.size,
            "tokens": estimate_tokens,
            "visible": safe_text.visible,
            "when": safe_text.when,
        }
        self._templates.filters.update(filters)  # pyright: ignore[reportUnknownMemberType]
        helpers = {
            "bars": bars,
            "lines": lines,
            "share_bar": share_bar,
            "trendline": trendline,
            "toolgate_version": toolgate.__version__,
        }
        self._templates.globals.update(helpers)  # pyright: ignore[reportUnknownMemberType]

    def page(self, request: PageRequest, template: str, values: Mapping[str, object]) -> str:
        """Render a page as HTML."""
        path = request.http.scope["path"].partition("/console")[2].strip("/")
        here = path.partition("/")[0]
        if here == "navigation":  # the menu for another page
            here = request.query_value("here")
        return self._templates.get_template(template).render(
            request=request,
            url=request.url,
            flash=unquote(cookie_of(request.http, FLASH_COOKIE)),
            here=here,
            within=WITHIN.get(here),
            menu=menu_of(request),
            static=self._static,
            csrf_field=_csrf_field(request),
            **values,
        )

    @cached_property
    def _static(self) -> Mapping[str, str]:
        """URLs of static files with their hashes, so that browsers can cache them."""
        return {
            name: f"static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"
            for name in STATIC
        }


def static_file(name: str) -> bytes:
    """Read a static file."""
    return _FOLDER.joinpath(name).read_bytes()


def _groups(menu: Iterable[MenuPage]) -> list[tuple[str, list[MenuPage]]]:
    """Group the pages of the menu by heading, in their order."""
    return [(group, list(pages)) for group, pages in groupby(menu, lambda page: page.group)]


def _csrf_field(request: PageRequest) -> Markup:
    return Markup('<input type="hidden" name="csrf" value="{}">').format(request.csrf)


def _pretty(value: object) -> str:
    """Format a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _hushed(text: str) -> str:
    """Redact secrets in a server's configuration that a form contains."""
    try:
        attributes = json_object(json.loads(text))
    except (ValueError, RecursionError):
        return text
    config = json_object(attributes.get("config"))
    return (
        json.dumps({**attributes, "config": redact(config)}, ensure_ascii=False) if config else text
    )
