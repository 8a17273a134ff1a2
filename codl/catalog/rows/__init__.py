"""Rows of the table, one module an operator family."""
