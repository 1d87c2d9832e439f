"""The Earth: gravity and magnetic field."""
