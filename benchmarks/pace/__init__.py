"""What paces do in real jobs whose batches take as long as they are told to."""
