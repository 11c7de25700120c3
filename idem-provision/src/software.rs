//! The servers that can be started.

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Software {
    /// PostgreSQL, with its own cluster.
    Postgres,
    /// One Redis server, no cluster.
    Redis,
}

impl Software {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::Redis];

    /// The name that `IDEM_REQUIRE` and the commands know it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }

    /// The kind with this [name](Self::name).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|software| software.name() == name)
    }

    /// The variable of the environment that holds the URL of a server to use instead of starting one.
    #[must_use]
    pub const fn url_variable(self) -> &'static str {
        match self {
            Self::Postgres => "IDEM_POSTGRES_URL",
            Self::Redis => "IDEM_REDIS_URL",
        }
    }

    /// The program that is looked for.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis-server",
        }
    }

    /// The Debian package that brings it.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Self::Postgres => "postgresql",
            Self::Redis => "redis-server",
        }
    }
}
