"""`toolgate embedder`: is the configured one usable, and folders for `onnx`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Run
from tests.models.embedders.tiny import make_folder
from toolgate.cli.terminal._exit import FAILED, SUCCESS, USAGE_ERROR


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    """A configuration with an ONNX model of its own."""
    folder = make_folder(tmp_path / "model")
    path = tmp_path / "toolgate.toml"
    path.write_text(
        f'[search]\nembedder = "onnx"\nembedder_options = {{ folder = "{folder}" }}\n',
        encoding="utf-8",
    )
    return path


def test_the_bundled_embedder_works_without_any_configuration(toolgate: Run) -> None:
    done = toolgate("embedder", "test")

    assert done.returncode == SUCCESS
    assert done.stdout.startswith("bundled-1/256/")
    assert " works: 256 dimensions, loaded in " in done.stdout


def test_the_configured_embedder_is_the_one_that_is_tested(toolgate: Run, configured: Path) -> None:
    done = toolgate("embedder", "test", "--json", "--config", str(configured))
    found = json.loads(done.stdout)

    assert done.returncode == SUCCESS
    assert found["embedder"] == "onnx"
    assert found["identity"].startswith("onnx/model/256/")
    assert set(found) == {"embedder", "identity", "dim", "load_s", "ms_per_text"}


def test_a_truncated_model_is_told_in_one_sentence(toolgate: Run, configured: Path) -> None:
    model = configured.parent / "model" / "model.onnx"
    model.write_bytes(model.read_bytes()[:100_000])

    done = toolgate("embedder", "test", "--config", str(configured))

    assert done.returncode == FAILED
    assert done.stdout == ""
    assert "cut off or damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_options_are_told_with_their_place(command: Command, configured: Path) -> None:
    text = configured.read_text(encoding="utf-8")
    configured.write_text(text.replace(" }", ", pooling = 'max' }"), encoding="utf-8")

    done = command("--config", str(configured), "embedder", "test")

    assert done.status == USAGE_ERROR
    assert "Correct it under search.embedder_options." in done.err


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (None, "has no modules.json"),
        (["Transformer"], "has the modules Transformer"),
        (["Transformer", "Pooling", "Dense"], "has the modules Transformer, Pooling, Dense"),
        (["Transformer", "Pooling"], "has no tokenizer.json"),
    ],
    ids=["nothing", "no pooling", "dense", "no tokenizer"],
)
def test_what_cannot_be_exported_is_refused_before_any_work(
    toolgate: Run, tmp_path: Path, modules: list[str] | None, said: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    if modules is not None:
        parts = [{"path": name, "type": f"sentence_transformers.{name}"} for name in modules]
        (source / "modules.json").write_text(json.dumps(parts), encoding="utf-8")

    done = toolgate("embedder", "export", str(source), str(tmp_path / "out"))

    assert done.returncode == USAGE_ERROR
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_written_to(toolgate: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "1_Pooling").mkdir(parents=True)
    parts = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (source / "modules.json").write_text(json.dumps(parts), encoding="utf-8")
    (source / "tokenizer.json").write_text("{}", encoding="utf-8")
    (source / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True}), encoding="utf-8"
    )
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep me", encoding="utf-8")

    done = toolgate("embedder", "export", str(source), str(tmp_path / "out"))

    assert done.returncode == USAGE_ERROR
    assert "already exists" in done.stderr
    assert (tmp_path / "out" / "mine").read_text(encoding="utf-8") == "keep me"
