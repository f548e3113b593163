"""Short answers of a chat model, for use outside of turns."""

from typing import Literal

import anyio

from toolgate.models.llm import ChatRequest, Message, ModelRegistry
from toolgate.settings import CurrentSettings


class HelperModel:
    """Asks the model of `chat.helper_model`, or the default model."""

    def __init__(self, models: ModelRegistry, settings: CurrentSettings) -> None:
        self._models = models
        self._settings = settings

    async def __call__(
        self,
        prompt: str,
        *,
        purpose: Literal["rephrase", "grade", "select"],
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        """Return a short answer, at temperature 0.

        Raises:
            ModelError: The model gave no answer.
            TimeoutError: It took too long.
        """
        request = ChatRequest(
            messages=(Message(role="user", content=prompt),),
            parameters={"temperature": 0, "max_tokens": max_tokens},
            purpose=purpose,
        )
        with anyio.fail_after(timeout_s):
            name = self._models.name_of(self._settings.current.chat.helper_model or None)
            return (await self._models.complete(name, request)).message.text
