"""Rehearsals: a stand-in for a real vehicle flies among virtual obstacles, in the closed loop."""
