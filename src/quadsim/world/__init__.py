"""What the vehicle flies in: ground, air, gravity, magnetic field."""
