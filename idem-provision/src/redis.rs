//! How a Redis server is made, and how it is known.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::account::Account;
use crate::error::Error;
use crate::keeper::Charge;
use crate::local::{Kind, write};

/// How long one question may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// An answer is some hundred bytes long; reading ends at a bound, whoever answers.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

pub(crate) struct Single {
    pub(crate) program: PathBuf,
    pub(crate) password: String,
    pub(crate) settings: Vec<(String, String)>,
}

impl Kind for Single {
    fn prepare(&self, account: &Account, folder: &Path) -> Result<(), Error> {
        let data = folder.join("data");
        std::fs::create_dir(&data).map_err(|error| Error::broken(data.display(), error))?;
        account.own(&data)
    }

    fn configure(&self, account: &Account, folder: &Path, port: u16) -> Result<(), Error> {
        // Nothing is kept on disk unless a setting asks for it: later lines stand.
        let mut lines = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\nrequirepass {}\ndaemonize no\nsave \"\"\nappendonly no\n",
            quoted(&folder.join("data").to_string_lossy()),
            self.password,
        );
        for (name, value) in &self.settings {
            lines.push_str(&format!("{name} {}\n", quoted(value)));
        }
        write(account, &folder.join("redis.conf"), &lines)
    }

    fn charge(&self, folder: &Path) -> Charge {
        let arguments = vec![folder.join("redis.conf").into_os_string()];
        Charge { program: self.program.clone(), arguments, last_signal: "TERM", linger_s: 0 }
    }

    /// Whoever knows the password and has the process id of what was started is what was started.
    fn answers(&self, _folder: &Path, port: u16, pid: u32) -> bool {
        let said = self.ask(port).unwrap_or_default();
        let has = |line: &str| said.lines().any(|said| said == line);
        has("+PONG") && has(&format!("process_id:{pid}")) && has("loading:0")
    }

    fn signals(&self) -> (&'static str, &'static str) {
        ("TERM", "KILL")
    }

    fn url(&self, port: u16) -> String {
        // With the name of the user: some clients take an empty one for a name.
        format!("redis://default:{}@127.0.0.1:{port}/", self.password)
    }
}

impl Single {
    /// Everything that it answers to a few questions, until it closes the connection because it was asked to.
    fn ask(&self, port: u16) -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, ANSWERS_WITHIN)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
        write!(stream, "AUTH {}\r\nPING\r\nINFO server\r\nINFO persistence\r\nQUIT\r\n", self.password)?;
        let mut said = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// A value as one word of the configuration.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

impl std::fmt::Debug for Single {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Single").field("program", &self.program).finish_non_exhaustive()
    }
}
