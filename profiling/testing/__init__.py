"""What has several implementations is tested by one suite, which ships with the package."""
