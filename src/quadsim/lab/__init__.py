"""What runs many flights, or reads one for its figures: identification, batches, tuning."""
