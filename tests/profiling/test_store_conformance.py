"""Every database keeps the same promises."""

import pytest

from ._store_suite import StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'folder' / 'store.db'}"


@pytest.mark.postgresql
class TestPostgresql(StoreConformance):
    @pytest.fixture
    def url(self, postgresql_url):
        return postgresql_url
