"""Flights in three dimensions and as time series, drawn by Rerun (the extra ``[view]``).

Nothing here knows ROS: what is drawn are tracks and arrays, and messages as they lie in a bag or
come from DDS, so that a live graph, a bag and a flight of the closed loop look the same.
"""
