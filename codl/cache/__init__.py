"""What codl keeps between processes: sealed files in folders of the user's own."""
