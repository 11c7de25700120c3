//! How a PostgreSQL cluster is made, and how it is known.

use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::Error;
use crate::keeper::Charge;
use crate::local::{Kind, write};

/// Systems keep the path of a socket below about a hundred bytes, its name included.
const SOCKET_FOLDER_BYTES_MAX: usize = 80;

pub(crate) struct Cluster {
    pub(crate) program: PathBuf,
    pub(crate) password: String,
    pub(crate) settings: Vec<(String, String)>,
}

impl Kind for Cluster {
    fn prepare(&self, account: &Account, folder: &Path) -> Result<(), Error> {
        write(account, &folder.join("password"), &self.password)?;
        // On PATH there may be a link to the server alone.
        let program = self.program.canonicalize().unwrap_or_else(|_| self.program.clone());
        let initdb = program.with_file_name("initdb");
        // The password proves the server to the client as well: with SCRAM both have to know it. A new cluster need not
        // be flushed, since nothing is in it.
        let arguments = "--pgdata=data --username=idem --pwfile=password --auth=scram-sha-256 --encoding=UTF8 \
                         --no-locale --no-sync";
        let mut command = account.command(&initdb, folder);
        let output = command.args(arguments.split_whitespace()).output();
        let output = output.map_err(|error| Error::broken(initdb.display(), error))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::broken(format_args!("initdb ended with {}", output.status), message));
        }
        Ok(())
    }

    fn configure(&self, account: &Account, folder: &Path, port: u16) -> Result<(), Error> {
        let socket = folder.to_string_lossy();
        let socket = if socket.len() <= SOCKET_FOLDER_BYTES_MAX { &*socket } else { "" };
        let mut lines = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nmax_connections = 200\n",
            quoted(socket),
        );
        for (name, value) in &self.settings {
            lines.push_str(&format!("{name} = '{}'\n", quoted(value)));
        }
        // Read after postgresql.conf, and what is read later stands.
        write(account, &folder.join("data/postgresql.auto.conf"), &lines)
    }

    fn charge(&self, _folder: &Path) -> Charge {
        // Its data are thrown away, so it need not write them down.
        let last_signal = "QUIT";
        Charge {
            program: self.program.clone(),
            arguments: vec!["-D".into(), "data".into()],
            last_signal,
            linger_s: 0,
        }
    }

    /// The cluster is ours alone, and its server says in it who it is, where it listens and since when it answers. One
    /// that cannot have the port ends before.
    fn answers(&self, folder: &Path, port: u16, pid: u32) -> bool {
        let told = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        let line = |index: usize| lines.get(index).copied().unwrap_or_default();
        line(0) == pid.to_string() && line(3) == port.to_string() && line(7) == "ready"
    }

    fn signals(&self) -> (&'static str, &'static str) {
        ("INT", "QUIT")
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://idem:{}@127.0.0.1:{port}/postgres", self.password)
    }
}

/// Inside of single quotes in the configuration.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\'', "''")
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("program", &self.program).finish_non_exhaustive()
    }
}
