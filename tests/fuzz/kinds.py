"""All kinds of inputs that the fuzzer draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from tests.fuzz import command_lines, inputs, message_inputs, project_inputs
from tests.fuzz.inputs import Input

KINDS: Mapping[str, Callable[[random.Random], Input]] = {
    "log": inputs.log, "written log": inputs.written_log, "dump": inputs.dump, "case": inputs.saved_case,
    "program": inputs.program, "checkpoint": inputs.checkpoint, "text": inputs.text,
    "notebook": project_inputs.notebook, "settings": project_inputs.settings, "manifest": project_inputs.manifest,
    "baseline": project_inputs.baseline, "archive": project_inputs.archive, "comparison": message_inputs.comparison,
    "environment": message_inputs.environment, "node message": message_inputs.node_message,
    "rank message": message_inputs.rank_message, "listener": message_inputs.listener,
    "arguments": command_lines.words, "options": command_lines.options,
}  # fmt: skip
