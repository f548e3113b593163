"""The Helm chart as Helm renders it, checked against the schemas of Kubernetes; compose file."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.limits import HANG_S
from tests.real.setup import ensure_deployment_tools
from toolgate.settings import load
from toolgate.types import Json

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("deployment")]

ROOT = Path(__file__).parents[2]
POSTGRES = {"database": {"url": "postgresql://toolgate:x@postgres/toolgate"}}


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python with Helm's library and the schemas."""
    return ensure_deployment_tools(print)


def render(python: Path, values: Json) -> Json:
    done = subprocess.run(
        [
            *(str(python), str(Path(__file__).parent / "scripts" / "render_deployment.py")),
            *(str(ROOT / "deploy/helm/toolgate"), str(ROOT / "deploy/compose.yaml")),
            json.dumps(values),
        ],
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_kind(rendered: Json) -> dict[str, Json]:
    return {f"{item['kind']} {item['metadata']['name']}": item for item in rendered["objects"]}


def test_the_default_chart_is_one_pod_with_a_volume(python: Path, tmp_path: Path) -> None:
    rendered = render(python, {})
    objects = by_kind(rendered)
    assert set(objects) == {
        *("ConfigMap toolgate", "Deployment toolgate", "PersistentVolumeClaim toolgate"),
        *("Secret toolgate-keys", "Service toolgate"),
    }
    pod = objects["Deployment toolgate"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "initContainers" not in pod
    assert pod["volumes"][-1]["persistentVolumeClaim"]["claimName"] == "toolgate"

    config = tmp_path / "toolgate.toml"
    config.write_text(objects["ConfigMap toolgate"]["data"]["toolgate.toml"], "utf-8")
    settings = load(config, environ={}, cwd=tmp_path)
    assert settings.auth == "required"
    assert settings.store.url == "sqlite:////data/toolgate.db"
    assert "toolgate.tools:*" in settings.serve.allowed_hosts
    assert "http://toolgate.tools:7420/mcp" in rendered["notes"]


def test_with_postgresql_the_store_is_upgraded_before_the_start(python: Path) -> None:
    values = {**POSTGRES, "replicas": 3, "persistence": {"enabled": False}}
    values |= {"ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"}}
    objects = by_kind(render(python, values))
    assert objects["Secret toolgate-database"]["stringData"] == POSTGRES["database"]
    assert objects["Ingress toolgate"]["spec"]["tls"][0]["secretName"] == "tls"
    deployment = objects["Deployment toolgate"]["spec"]
    assert deployment["replicas"] == 3
    [upgrade] = deployment["template"]["spec"]["initContainers"]
    assert upgrade["args"] == ["db", "upgrade"]
    [store] = [item for item in upgrade["env"] if item["name"] == "TOOLGATE_STORE"]
    assert store["valueFrom"]["secretKeyRef"] == {"name": "toolgate-database", "key": "url"}


def test_own_secrets_are_used_and_none_is_made(python: Path) -> None:
    values = {"database": {"existingSecret": "mine", "key": "dsn"}, "keys": {"existingSecret": "k"}}
    objects = by_kind(render(python, values))
    assert not any(name.startswith("Secret") for name in objects)
    [container] = objects["Deployment toolgate"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "mine", "key": "dsn"}
    assert container["envFrom"] == [{"secretRef": {"name": "k"}}]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replicas": 2}, "needs a PostgreSQL database"),
        ({**POSTGRES, "replicas": 2}, "cannot share a volume of one node"),
    ],
)
def test_what_cannot_work_is_refused(python: Path, values: Json, words: str) -> None:
    assert words in render(python, values)["refused"]


def test_the_compose_file_upgrades_the_store_and_keeps_it(python: Path) -> None:
    services = render(python, {})["services"]
    assert set(services) == {"postgres", "upgrade", "toolgate"}
    waits = services["toolgate"]["depends_on"]["upgrade"]["condition"]
    assert waits == "service_completed_successfully"
    assert services["upgrade"]["command"] == ["db", "upgrade"]
    assert services["toolgate"]["ports"] == ["127.0.0.1:7420:7420"]
