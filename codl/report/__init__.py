"""Shows what was decided and what it costs: text, HTML, traces, annotated models, pictures."""
