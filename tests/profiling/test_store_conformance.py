"""Every database keeps the same promises."""

import pytest

pytest.register_assert_rewrite("hetune.profiling.testing.stores")

from hetune.profiling.testing.stores import StoreConformance  # noqa: E402


class TestSqlite(StoreConformance):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'folder' / 'store.db'}"


@pytest.mark.postgresql
class TestPostgresql(StoreConformance):
    @pytest.fixture
    def url(self, postgresql_url):
        return postgresql_url
