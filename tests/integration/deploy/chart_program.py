"""Runs in the environment of `environment.py`: renders the chart with Helm's own library and checks what comes out.

Standard input: {"chart": folder, "kubernetes": ["1.33", …], "definitions": {kind: JSON schema}, "cases": [values, …]}.
Standard output: one {"documents", "notes", "refused", "problems", "lint"} for each case.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema
import kubernetes_validate
import yaml
from helm_python import chart as helm

Document = dict[str, Any]


def examine(folder: str, values: Document, kubernetes: Sequence[str], definitions: Mapping[str, Document]) -> Document:
    """One case."""
    found: Document = {"documents": [], "notes": "", "refused": "", "problems": []}
    report = helm.lint(folder, values, strict=True)
    found["lint"] = [message["error"] for message in report["messages"] if message["severity"] > 1] + report["errors"]
    try:
        with helm.Chart.load(folder) as chart:
            rendered = chart.render(values, name="trial", namespace="watch")
    except Exception as error:
        found["refused"] = str(error)
        return found
    for path, text in sorted(rendered.items()):
        if path.endswith("NOTES.txt"):
            found["notes"] = text
        else:
            found["documents"] += [document for document in yaml.safe_load_all(text) if document]
    for document in found["documents"]:
        found["problems"] += problems(document, kubernetes, definitions)
    return found


def problems(document: Document, kubernetes: Sequence[str], definitions: Mapping[str, Document]) -> list[str]:
    """What a cluster would refuse."""
    name = f"{document['kind']} {document['metadata']['name']}"
    if document["kind"] in definitions:
        validator = jsonschema.Draft7Validator(definitions[document["kind"]])
        return [f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    if document["apiVersion"] == "monitoring.coreos.com/v1":
        # No schema of these is to be had from a package registry.
        return []
    found = []
    for version in kubernetes:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            found.append(f"{name} ({version}): {error}")
    return found


def main() -> None:
    """Read, examine, write."""
    asked = json.load(sys.stdin)
    answers = [examine(asked["chart"], values, asked["kubernetes"], asked["definitions"]) for values in asked["cases"]]
    json.dump(answers, sys.stdout, default=str)


if __name__ == "__main__":
    main()
