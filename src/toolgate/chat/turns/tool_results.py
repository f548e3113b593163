"""Tool results as text for models."""

from toolgate.base import json_text
from toolgate.types import Json, json_array, json_object


def text_of(result: Json, *, most_chars: int = 1_000_000) -> str:
    """Return the text of a `tools/call` result: other content is named, none at all is JSON."""
    parts: list[str] = []
    for block in map(json_object, json_array(result.get("content"))):
        match block.get("type"):
            case "text":
                parts.append(str(block.get("text", "")))
            case "image" | "audio":
                size = len(str(block.get("data", ""))) * 3 // 4
                parts.append(f"[{block['type']}, {block.get('mimeType', '')}, {size:,} bytes]")
            case "resource":
                inside = json_object(block.get("resource"))
                text: object = inside.get("text")
                parts.append(
                    text if isinstance(text, str) else f"[{inside.get('uri', 'resource')}]"
                )
            case "resource_link":
                parts.append(f"[{block.get('name', 'resource')}: {block.get('uri', '')}]")
            case _:
                parts.append(json_text.dumps(block).decode())
    text = "\n".join(part for part in parts if part)
    if not text and (structured := result.get("structuredContent")) is not None:
        text = json_text.dumps(structured).decode()
    if len(text) > most_chars:
        left = len(text) - most_chars
        text = f"{text[:most_chars]}\n[cut: {left:,} characters more. Ask for less at a time.]"
    return text
