"""Published experiments flown again: FCND projects and the NTNU thesis."""
