"""XML as tinyxml2 reads it, with which Gazebo reads worlds; expat refuses much of what it takes.

Two hyphens in a comment, prefixes that nobody declared, a lone ``&``, entities that nobody defined
(they stay as they are) and bytes that are no UTF-8 are all right. Nothing but the five entities of
XML and numbered characters is replaced, and a document type is refused, so no text grows.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, TreeBuilder  # types alone: nothing is parsed by them

#: tinyxml2 refuses to go deeper.
MAX_DEPTH = 500

_NAME = r"[A-Za-z_:\u0080-\U0010ffff][-.\w:\u0080-\U0010ffff]*"
_ATTRIBUTE = re.compile(rf"({_NAME})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_TAG = re.compile(
    rf"<(?P<name>{_NAME})(?P<attributes>(?:\s*{_NAME}\s*=\s*(?:\"[^\"]*\"|'[^']*'))*)\s*"
    rf"(?P<empty>/?)>|</(?P<end>{_NAME})\s*>"
)
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#x([0-9A-Fa-f]{1,6}));")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
#: What is no element, by its start: how it ends.
_OTHERS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}


class XmlError(ValueError):
    """A text is no XML."""


class DocumentTypeError(XmlError):
    """It declares a document type, which could define entities."""


def parse(content: bytes | str) -> Element:
    """Root element of a text.

    Raises:
        XmlError: what is wrong, and in which line.
    """
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    builder, names, at = TreeBuilder(), list[str](), 0

    def refuse(words: str) -> XmlError:
        return XmlError(f"{words}: line {text.count(chr(10), 0, at) + 1}")

    while (start := text.find("<", at)) >= 0:
        if names:
            builder.data(_plain(text[at:start]))
        at = start
        opening = next((other for other in _OTHERS if text.startswith(other, at)), None)
        if opening is not None:
            end = text.find(_OTHERS[opening], at + len(opening))
            if end < 0:
                raise refuse(f"{opening} without {_OTHERS[opening]}")
            if names and opening == "<![CDATA[":
                builder.data(text[at + len(opening) : end])
            at = end + len(_OTHERS[opening])
            continue
        if text.startswith("<!", at):
            raise DocumentTypeError("a document type")
        tag = _TAG.match(text, at)
        if tag is None:
            raise refuse("no tag")
        name = tag["name"] or tag["end"]
        if tag["name"]:
            attributes = {}
            for key, double, single in reversed(_ATTRIBUTE.findall(tag["attributes"])):
                attributes[key] = _plain(double or single)
            builder.start(name, attributes)
            names.append(name)
            if len(names) > MAX_DEPTH:
                raise refuse(f"more than {MAX_DEPTH} elements, one inside another")
        elif not names or names[-1] != name:
            raise refuse(f"</{name[:40]}> ends what is not open")
        if tag["end"] or tag["empty"]:
            names.pop()
            builder.end(name)
            if not names:
                return builder.close()
        at = tag.end()
    raise refuse(f"<{names[-1][:40]}> does not end" if names else "no element")


def _plain(text: str) -> str:
    """A text with its entities replaced."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return _ENTITIES[found[1]]
    code = int(found[2]) if found[2] else int(found[3], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else found[0]
