"""The contract suite for stores.

Example:
    ```python
    class TestMine(StoreContract):
        @pytest.fixture
        def store_url(self, tmp_path: Path) -> str:
            return f"sqlite:///{tmp_path / 'toolgate.db'}"
    ```
"""

from toolgate.testing.contracts.store.access import AccessContract
from toolgate.testing.contracts.store.approvals import ApprovalContract
from toolgate.testing.contracts.store.audit import AuditContract
from toolgate.testing.contracts.store.backups import BackupContract
from toolgate.testing.contracts.store.catalog import CatalogContract
from toolgate.testing.contracts.store.credentials import CredentialContract
from toolgate.testing.contracts.store.databases import DatabaseContract
from toolgate.testing.contracts.store.detections import DetectionContract
from toolgate.testing.contracts.store.opening import OpeningContract
from toolgate.testing.contracts.store.results import ResultContract
from toolgate.testing.contracts.store.samples import HOSTILE, audit_records, sample_record
from toolgate.testing.contracts.store.servers import ServerContract
from toolgate.testing.contracts.store.threads import ThreadContract
from toolgate.testing.contracts.store.tool_texts import ToolTextContract
from toolgate.testing.contracts.store.usage import UsageContract

__all__ = ["HOSTILE", "StoreContract", "audit_records", "sample_record"]


class StoreContract(
    AccessContract,
    ApprovalContract,
    AuditContract,
    BackupContract,
    CatalogContract,
    CredentialContract,
    DatabaseContract,
    DetectionContract,
    OpeningContract,
    ResultContract,
    ServerContract,
    ThreadContract,
    ToolTextContract,
    UsageContract,
):
    """The requirements of `Store` and `StoreMaintenance`, one test each; all are our decisions."""
