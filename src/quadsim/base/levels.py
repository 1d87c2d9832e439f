"""Levels of events, as diagnostic_msgs/DiagnosticStatus counts them."""

OK, WARN, ERROR = 0, 1, 2
