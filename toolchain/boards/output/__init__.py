"""The output of commands on boards: forwarded, limited, stored."""
