"""``quadsim ui``: fly, tune and compare on one page of a browser on this machine."""
