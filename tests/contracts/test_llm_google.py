"""The adapter `google` against a service that speaks like its provider."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.contracts.model_services import Service, model_of, service_of
from toolgate.models.llm import ChatModel
from toolgate.testing.contracts.llm import ChatModelContract

pytestmark = pytest.mark.xdist_group("google")


class TestGoogle(ChatModelContract):
    @pytest.fixture
    async def service(self) -> AsyncIterator[Service]:  # type: ignore[override] # it ends too
        async with service_of("google", "") as service:
            yield service

    @pytest.fixture
    def make_model(self, service: Service) -> Callable[[], ChatModel]:
        return lambda: model_of("google", service.url)
