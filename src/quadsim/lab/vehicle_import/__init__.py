"""Vehicle files of other programs as ours."""
