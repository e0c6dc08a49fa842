"""Every database keeps the same promises about jobs."""

import pytest

from ._jobs_suite import DatabaseConformance


class TestSqlite(DatabaseConformance):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.mark.postgresql
class TestPostgresql(DatabaseConformance):
    @pytest.fixture
    def url(self, postgresql_url):
        return postgresql_url
