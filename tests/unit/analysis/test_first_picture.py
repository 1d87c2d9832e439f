"""The first picture of the README shows the flight that ``quadsim sim`` flies."""

from pathlib import Path

import make_pictures
import pytest
from PIL import Image

README = Path(__file__).parents[3] / "README.md"


@pytest.fixture(scope="module")
def log():
    return make_pictures.fly()


def test_the_figure_is_the_flights_own(log):
    figure = make_pictures.estimate_error(log)
    assert Image.open(make_pictures.PICTURE).text[make_pictures.FIGURE] == figure, (
        "make it anew: python docs/make_pictures.py"
    )
    assert figure in README.read_text(encoding="utf-8")


def test_the_picture_says_it(log):
    assert make_pictures.estimate_error(log) in make_pictures.square_picture(log).layout.title.text
