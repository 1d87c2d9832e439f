"""Control: position and velocity to attitude and thrust, attitude to rotor speeds, the mixer."""
