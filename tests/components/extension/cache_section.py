"""Settings of a component of the test."""

from __future__ import annotations

from pydantic import Field

from trainyard.settings.platform import Install, InstalledSettings
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel
from trainyard.settings.versions import ComponentRelease


class CacheSettings(InstalledSettings):
    """A cache of datasets."""

    install: Install = Field(default=True, description="true: installed by this program; existing: in the cluster")
    namespace: DnsLabel = Field(default="cache-system", description="Namespace of the cache")
    shards: int = Field(default=2, ge=1, description="Number of shards")


SECTION = Section(
    "cache", 10, CacheSettings, "A cache of datasets", (ComponentRelease("example.com/cache", "1.2.0", "v1.2.0"),)
)
