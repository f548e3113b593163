"""Renders the chart with Helm's own library and checks it; prints JSON. Runs in its own venv.

`python render_deployment.py CHART COMPOSE VALUES`, with the values of the chart as JSON.
"""

# pyright: basic, reportMissingImports=false

import json
import re
import sys
from pathlib import Path

import kubernetes_validate
import yaml
from compose_spec import PyCompose
from helm_python import Chart
from helm_python.errors import HelmRenderError

chart_path, compose_path, values = sys.argv[1:]
result: dict = {}
try:
    rendered = Chart.load(chart_path).render(json.loads(values), name="toolgate", namespace="tools")
except HelmRenderError as error:
    result["refused"] = str(error)
else:
    result["notes"] = rendered.pop("toolgate/templates/NOTES.txt")
    result["objects"] = [
        item for text in rendered.values() for item in yaml.safe_load_all(text) if item
    ]
    for item in result["objects"]:
        kubernetes_validate.validate(item, "1.31", strict=True)
# Through JSON, since the schema knows nothing of the merge keys of YAML, and without variables,
# which compose fills in first.
text = re.sub(r"\$\{\w+(?::-([^}]*)|:\?[^}]*)?\}", r"\1", Path(compose_path).read_text("utf-8"))
composition = PyCompose.from_json(json.dumps(yaml.safe_load(text)))
composition.validate()
composition.validate_volumes()
result["services"] = json.loads(composition.to_json())["services"]
sys.stdout.write(json.dumps(result))
