"""The proof that every gate says the same: mutated objects, reviewed by each of them."""
