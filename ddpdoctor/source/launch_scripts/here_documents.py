"""Here-documents of shell: their text, and the file that a script writes one to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ddpdoctor.source.launch_scripts.shell_syntax import node_text
from ddpdoctor.source.launch_scripts.shell_words import UnknownExpansion, Variables, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_WRITES = frozenset({">", ">|", "&>"})


def here_document(node: Node) -> Node | None:
    """The body of the first here-document of a statement with redirections; None where it has none."""
    found = [child for child in node.named_children if child.type == "heredoc_redirect"]
    return next((child for child in found[0].named_children if child.type == "heredoc_body"), None) if found else None


def document_text(node: Node, variables: Variables) -> str:
    """The text of a here-document; where its end is quoted, nothing in it is replaced."""
    parent = node.parent
    quoted = parent is not None and any(
        child.type == "heredoc_start" and node_text(child)[:1] in "'\"\\" for child in parent.named_children
    )
    return node_text(node) if quoted else text_of(node, variables, UnknownExpansion.MARK)


def written_file(words: Sequence[str], node: Node, variables: Variables) -> str:
    """The file that `cat > FILE <<EOF` or `tee FILE <<EOF` writes; empty for other commands.

    `words` are the command's, `node` is the statement with its redirections.
    """
    if words[:1] == ["tee"]:
        return next((word for word in words[1:] if not word.startswith("-")), "")
    if list(words) != ["cat"]:
        return ""
    targets = [each.child_by_field_name("destination") for each in _file_redirects(node)]
    return next((text_of(target, variables) for target in targets if target is not None), "")


def _file_redirects(node: Node) -> Iterator[Node]:
    """What replaces a file; behind `<<EOF` the parser puts it below the here-document."""
    for child in node.named_children:
        if child.type == "heredoc_redirect":
            yield from _file_redirects(child)
        elif child.type == "file_redirect" and child.children[0].type in _WRITES:
            yield child
