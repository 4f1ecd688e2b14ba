"""What all tests share."""

from hypothesis import HealthCheck, settings

# A loaded machine is slow, which is no fault of what is tested; the pytest timeout bounds every test.
settings.register_profile("runner", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("runner")
