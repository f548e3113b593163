"""The files of the container image: what they promise without building it."""

import re
import subprocess
from pathlib import Path

import pytest

from toolgate.settings import load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_the_image_does_not_run_as_root_and_has_a_health_check() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    final = text.rpartition("\nFROM ")[2]
    users = re.findall(r"^USER (\S+)$", final, re.MULTILINE)
    assert users == ["10001:10001"]
    assert "HEALTHCHECK" in final
    assert "/healthz" in final
    assert "--require-hashes" in text
    chart = (DEPLOY / "helm/toolgate/templates/deployment.yaml").read_text(encoding="utf-8")
    assert "runAsUser: 10001" in chart


@pytest.mark.parametrize("store", ["", "postgresql://toolgate:x@postgres/toolgate"])
def test_the_configuration_in_the_image_asks_for_tokens(store: str, tmp_path: Path) -> None:
    environ = {"TOOLGATE_STORE": store} if store else {}
    settings = load(DEPLOY / "toolgate.toml", environ=environ, cwd=tmp_path)
    assert settings.auth == "required"
    assert settings.serve.host == "0.0.0.0"
    assert settings.store.url == (store or "sqlite:////data/toolgate.db")


def test_only_named_files_reach_the_build() -> None:
    lines = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source
        for line in (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == kept
    assert all((ROOT / name).exists() for name in kept)


@pytest.mark.parametrize("name", ["base_image.sh", "build_image.sh", "check_image.sh"])
def test_the_scripts_are_valid_for_any_shell(name: str) -> None:
    done = subprocess.run(
        ["sh", "-n", str(DEPLOY / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
