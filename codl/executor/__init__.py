"""Acting: a plan made into prepared calls, and the loop that makes them. Decides nothing."""
