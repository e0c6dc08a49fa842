"""Workers of jobs: they measure and train what they lease, on their own or beside a service."""
