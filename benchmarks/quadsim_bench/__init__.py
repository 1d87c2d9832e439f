"""What ``quadsim bench`` measures: each module of this folder offers measurements of one part."""
