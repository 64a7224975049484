"""Lines of an error that a page has joined, or a sentence has taken in: each on a line of its own again."""

from __future__ import annotations

import re

from ddpdoctor.logs.tracebacks import HEAD

_LAST_ERROR = "Last error:"
_OF_NCCL = re.compile(
    r"(?<=\S) {1,400}(?=terminate called after throwing|what\(\): |nccl[A-Z]\w{1,40}Error: |Last error:|Exception raised from |"
    r"frame #\d{1,3}: )|(?<=Last error:) {1,400}"
)
_FRAMES = re.compile(r" (?=File \"[^\"]{1,400}\", line \d)")
_CODE = re.compile(r"^(  File \"[^\"]{1,400}\", line \d{1,9}, in (?:<\w{1,40}>|\w{1,200})) ", re.MULTILINE)
_ERROR = re.compile(r" (?=(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt)(?:: |$))")
_OPENS_CODE = re.compile(r"(?<=.)`(?=(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception): )")


def separated(text: str) -> str:
    """The line, with ends of lines where NCCL and Python write them."""
    if _LAST_ERROR in text and not text.rstrip().endswith(_LAST_ERROR):
        text = _OF_NCCL.sub("\n", text)
    if f'{HEAD}: File "' in text:
        text = _ERROR.sub("\n", _CODE.sub(r"\1\n    ", _FRAMES.sub("\n  ", text)))
    if text.count("`") % 2:  # code within a sentence that goes on in the next lines
        text = _OPENS_CODE.sub("\n", text)
    return text
