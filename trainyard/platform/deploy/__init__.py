"""Operations on stacks through Pulumi's Automation API; the only package that drives Pulumi."""
