//! One server for many processes. Each test runs this program again as its children, some of which are killed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed assumption is a failed test")]
#![allow(clippy::disallowed_methods, reason = "a keeper is another process, and waits in real time")]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use idem_provision::{Ending, Provision, Software, required};

/// Set for a child: it asks for a server with a setting of this test alone.
const CHILD: &str = "IDEM_PROVISION_TEST_CHILD";

/// A child that uses a server until its input ends.
struct User {
    process: Child,
    /// Held open, or it fails on what it prints at its end.
    _lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl User {
    fn start(test: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "as_child", "--nocapture"]).env(CHILD, test).env_remove("IDEM_REDIS_URL");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let found = |line: String| Some(line.split_once("URL ")?.1.to_owned());
        let url = lines.by_ref().map_while(Result::ok).find_map(found).unwrap();
        Self { process, _lines: lines, url }
    }

    fn address(&self) -> &str {
        self.url.rsplit_once('@').unwrap().1.trim_end_matches('/')
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Not a test of its own: what the children do.
#[test]
fn as_child() {
    let Ok(test) = std::env::var(CHILD) else { return };
    // A setting that changes nothing, for a server that no other test shares.
    let asked = Provision::of(Software::Redis).setting("proc-title-template", &test);
    let server = asked.start().unwrap();
    println!("\nURL {}", server.url());
    std::io::stdout().flush().unwrap();
    std::io::stdin().lines().for_each(drop);
}

fn skipped() -> bool {
    match idem_provision::find_program("redis-server") {
        Some(_) => false,
        None if required(Software::Redis) => panic!("redis is required"),
        None => {
            eprintln!("skipped: no redis-server");
            true
        }
    }
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn processes_share_one_server_and_the_last_one_ends_it_even_when_it_is_killed() {
    if skipped() {
        return;
    }
    let (first, second) = (User::start("shared"), User::start("shared"));
    assert_eq!(first.url, second.url);
    let address = first.address().to_owned();
    first.kill();
    TcpStream::connect(&address).unwrap();
    // Nobody uses it for a moment, as between two tests that run one after the other.
    let url = second.url.clone();
    second.kill();
    let third = User::start("shared");
    assert_eq!(third.url, url);
    third.end();
    eventually("the server outlives its users", || TcpStream::connect(&address).is_err());
}

#[test]
fn other_settings_are_another_server() {
    if skipped() {
        return;
    }
    let (one, other) = (User::start("one"), User::start("other"));
    assert_ne!(one.address(), other.address());
    one.end();
    other.end();
}

#[test]
#[cfg(target_os = "linux")] // Elsewhere a test cannot find the keeper.
fn what_a_killed_keeper_left_is_stopped_and_removed_by_the_next_start() {
    if skipped() {
        return;
    }
    let mut left = Provision::of(Software::Redis).start_private().unwrap();
    let (folder, server) = (left.folder().to_owned(), left.pid().unwrap());
    let address = left.url().rsplit_once('@').unwrap().1.trim_end_matches('/').to_owned();
    kill(parent(parent(server)));
    // The end of its owner has nobody to tell any more.
    drop(left.stop(Ending::Orderly));
    TcpStream::connect(&address).unwrap();
    drop(Provision::of(Software::Redis).start_private().unwrap());
    assert!(!folder.exists());
    eventually("the server was left running", || TcpStream::connect(&address).is_err());
}

/// The server's parent is a shell whose parent is the keeper.
#[cfg(target_os = "linux")]
fn parent(process: u32) -> u32 {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{process}/stat"))).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
fn kill(process: u32) {
    assert!(Path::new(&format!("/proc/{process}")).exists());
    assert!(Command::new("sh").args(["-c", &format!("kill -KILL {process}")]).status().unwrap().success());
}
