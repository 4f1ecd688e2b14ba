"""What the product's speed rests on, as numbers: `python -m bench [NAME]`."""
