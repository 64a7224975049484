"""Lints checkouts of public repositories: `python -m tests.crater FOLDER`, each checkout in FOLDER/NAME.

Prints one line of a Markdown table for each finding of severity warn and fail, and says which checkouts are missing.
docs/crater.md keeps the result, judged by hand. The code of the repositories is no part of this one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ddpdoctor.model import Severity
from ddpdoctor.workflows.lint import LintOptions, lint_paths
from tests.crater.repositories import REPOSITORIES


def main() -> None:
    """Print the findings of every checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds a checkout of each repository, named like it")
    parser.add_argument("names", nargs="*", help="only these")
    asked = parser.parse_args()
    print("| repository | file | line | code | message |\n|---|---|---|---|---|")
    for repository in REPOSITORIES:
        name = repository.name.partition("/")[2]
        checkout = asked.folder / name
        if asked.names and name not in asked.names:
            continue
        if not checkout.is_dir():
            print(f"| {repository.name} | no checkout of {repository.commit} in {checkout} | | | |")
            continue
        for finding in lint_paths([checkout], LintOptions(select=("DDP7",))).report.findings:
            if finding.severity is not Severity.INFO and finding.where:
                first = finding.where[0]
                file = Path(first.file).relative_to(checkout).as_posix()
                print(f"| {repository.name} | {file} | {first.line} | {finding.code} | {finding.message} |")


if __name__ == "__main__":
    main()
