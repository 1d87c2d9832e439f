"""Ways to write and to integrate the equations of motion."""
