"""results.html_text: nothing that is no Html gets into a page unescaped."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.results.html_text import Html, element, escaped, facts, folded, image, section, table
from loopai_trainer.rules.visible_text import visible

NASTY = """</td><script>alert('x')</script><img src=x onerror="alert(1)"> & 'q'"""


class Reader(HTMLParser):
    """The elements and the text of a piece of HTML."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.attributes = [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_any_text_stays_text(text):
    read = Reader(element("p", text, title=text))
    shown = visible(text)  # blanks that look like others are spelt out
    assert (read.tags, read.text, read.attributes) == (["p"], shown, [("title", shown)])


def test_injections_are_text_in_every_piece():
    for made in (table([NASTY], [[NASTY]]), facts([(NASTY, NASTY)]), section(NASTY, NASTY), folded(NASTY, NASTY)):
        read = Reader(made)
        assert not {"script", "img"} & set(read.tags)
        assert read.text == NASTY * 2
    assert Reader(image(NASTY, NASTY)).attributes == [("src", NASTY), ("alt", NASTY)]


def test_unseen_characters_are_spelt_out():
    assert escaped("a\u202eb\x1b") == "a\\u202eb\\x1b"


def test_what_is_html_stays_html_and_nothing_gives_nothing():
    assert escaped([Html("<b>x</b>"), None, 3, ("<",)]) == "<b>x</b>3&lt;"
    assert section("title", None, "") == ""
    assert element("a", hidden=True, class_=None, id=False, data_x="1") == '<a hidden data-x="1"></a>'
    assert facts([("n", None)]) == "<dl><div><dt>n</dt><dd>-</dd></div></dl>"


def test_the_marked_row_stands_out():
    assert table(["a"], [["1"], ["2"]], marked=1).count('<tr class="marked"><td>2</td>') == 1
