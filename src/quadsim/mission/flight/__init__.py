"""The flight manager: states, failsafes, battery, fence, pilot."""
