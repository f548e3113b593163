"""Builds intent detection and the rules of intents."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from toolgate.app.factories.search import SearchFactory
from toolgate.intents import DetectionLog, Recognizer
from toolgate.intents.rules import Rulebook, WorkspaceVariables
from toolgate.intents.service import IntentService
from toolgate.settings import CurrentSettings, home_dir, learned_dir
from toolgate.store import Store


@dataclass(frozen=True, kw_only=True)
class IntentParts:
    """The parts of intent detection."""

    recognizer: Recognizer
    """Classifies messages."""

    rulebook: Rulebook
    """The rules of the packs."""

    log: DetectionLog
    """Records detected intents."""

    service: IntentService
    """Combines the three."""


def open_intents(
    stack: AsyncExitStack, settings: CurrentSettings, store: Store, search_factory: SearchFactory
) -> IntentParts:
    """Open intent detection without packs; closing the stack closes it."""
    recognizer = Recognizer(embedder=search_factory.embedder_if_usable(), cache=learned_dir())
    stack.push_async_callback(recognizer.aclose)
    detections = DetectionLog(
        store.detections,
        enabled=lambda: settings.current.audit.detections,
        keep_messages=lambda: settings.current.audit.keep_queries,
    )
    stack.push_async_callback(detections.aclose)
    rulebook = Rulebook(
        common=WorkspaceVariables(
            working_folder(), home=home_dir(), connections=lambda: settings.current.connections
        )
    )
    service = IntentService(
        recognizer=recognizer,
        rulebook=rulebook,
        settings=lambda: settings.current.rules,
        notes=detections,
    )
    return IntentParts(recognizer=recognizer, rulebook=rulebook, log=detections, service=service)


def working_folder() -> Path:
    """The current working folder; the file system root if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")
