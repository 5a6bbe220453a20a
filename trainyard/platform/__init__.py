"""Operations on a platform: Pulumi runs, takeover of existing objects, and the quickstart."""
