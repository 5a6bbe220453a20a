"""The proof that every gate says the same: mutated objects, judged by each of them."""
