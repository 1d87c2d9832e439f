"""What is in the world: terrain, obstacles, rays and distances."""
