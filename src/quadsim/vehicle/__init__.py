"""The vehicle: rigid body, rotors, drag, contact."""
