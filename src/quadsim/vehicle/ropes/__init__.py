"""Ropes, slung loads and the constraints behind them."""
