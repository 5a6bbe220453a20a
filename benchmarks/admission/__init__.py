"""What admission policies add to the API server's answers: none, Trainyard's, and Gatekeeper's with the same rules."""
