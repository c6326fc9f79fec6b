"""What tables do for algorithms that change the model themselves, beside peers."""
