"""SQLite as the server's store: a transaction that cannot write yet waits for the one that does.

Prefect begins its transactions deferred: SQLite locks the database at their first write. If that follows a read, and another transaction
has written since, SQLite does not wait but fails ("database is locked"), and an event or the step of a run is lost.
"""

from contextlib import AbstractAsyncContextManager

from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction


def lock_at_begin() -> None:
    """Make every transaction of the server lock the database when it begins: then it waits its turn, for up to a minute."""
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_transaction(
        self: AioSqliteConfiguration, session: AsyncSession, **_deferred: bool
    ) -> AbstractAsyncContextManager[AsyncSessionTransaction]:
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = begin_transaction  # type: ignore[assignment, method-assign]
