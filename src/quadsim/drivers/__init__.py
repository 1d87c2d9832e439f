"""Driver files: topics, frames and units of real vehicles, in both directions."""
