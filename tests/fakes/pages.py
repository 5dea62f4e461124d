"""A page as a reader sees it: its elements, texts and scripts."""

from html.parser import HTMLParser

_VOID = {"meta", "img"}


class Page(HTMLParser):
    """A parsed page. `problems`: elements that were not closed as they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.problems: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.problems += self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append("")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.problems.append(tag)

    def handle_data(self, data):
        if self._open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self._open[-1:] != ["style"]:
            self.text += data

    def loads(self) -> list[str]:
        """What asks for something outside the page, by an attribute; data: URIs do not."""
        named = {"src", "href", "action", "poster", "srcset", "data", "background", "xlink:href"}
        return [value for _, name, value in self.attributes if name in named and not value.startswith("data:")]
