"""The air: standard atmosphere, wind and turbulence."""
