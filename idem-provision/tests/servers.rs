//! Servers as they are really started. Skipped, with the reason on the error output, where the programs are missing.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed assumption is a failed test")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use idem_provision::{Ending, Error, Private, Provision, Software, required};

/// A server of its own, or the reason why there is none. Only a missing program is a reason.
fn private(software: Software) -> Option<Private> {
    match Provision::of(software).start_private() {
        Ok(server) => Some(server),
        Err(error) if error.is_unavailable() && !required(software) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// `HOST:PORT` of a URL.
fn address(url: &str) -> &str {
    url.rsplit_once('@').unwrap().1.split('/').next().unwrap()
}

fn password(url: &str) -> &str {
    url.split_once("//").unwrap().1.split_once(':').unwrap().1.split_once('@').unwrap().0
}

fn ask_redis(url: &str, question: &str) -> String {
    let mut stream = TcpStream::connect(address(url)).unwrap();
    write!(stream, "AUTH {}\r\n{question}\r\nQUIT\r\n", password(url)).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

fn is_gone(pid: u32) -> bool {
    // One that nobody waited for is gone too.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

#[test]
fn a_server_is_stopped_and_removed_with_its_owner() {
    for software in Software::ALL {
        let Some(server) = private(software) else { continue };
        let (pid, folder, url) = (server.pid().unwrap(), server.folder().to_owned(), server.url().to_owned());
        assert!(!is_gone(pid));
        TcpStream::connect(address(&url)).unwrap();
        drop(server);
        assert!(!folder.exists());
        assert!(is_gone(pid));
        assert!(TcpStream::connect(address(&url)).is_err());
    }
}

#[test]
fn a_server_comes_back_on_its_port_and_data_however_it_ended() {
    for software in Software::ALL {
        let Some(mut server) = private(software) else { continue };
        let url = server.url().to_owned();
        let mark = server.data().join("mark");
        std::fs::write(&mark, "here").unwrap();
        for ending in [Ending::Orderly, Ending::Immediate, Ending::Kill] {
            let before = server.pid().unwrap();
            server.stop(ending).unwrap();
            assert_eq!(server.pid(), None);
            assert!(is_gone(before), "{software:?} {ending:?}");
            assert!(TcpStream::connect(address(&url)).is_err(), "{software:?} {ending:?}");
            server.start().unwrap();
            assert_ne!(server.pid(), Some(before));
            TcpStream::connect(address(&url)).unwrap();
        }
        assert!(mark.exists());
        assert_eq!(server.url(), url);
    }
}

#[test]
fn settings_reach_the_server() {
    let software = Software::Redis;
    let asked = Provision::of(software).setting("appendonly", "yes").setting("appendfsync", "always");
    let server = match asked.start_private() {
        Ok(server) => server,
        Err(error) if error.is_unavailable() && !required(software) => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let said = ask_redis(server.url(), "CONFIG GET append*");
    assert!(said.contains("appendonly\r\n$3\r\nyes"), "{said}");
    assert!(said.contains("appendfsync\r\n$6\r\nalways"), "{said}");
}

#[test]
fn a_setting_that_no_server_knows_is_broken_and_not_unavailable() {
    for software in Software::ALL {
        let asked = Provision::of(software).setting("no_such_setting", "1");
        match asked.start_private() {
            Err(error) if error.is_unavailable() && !required(software) => eprintln!("skipped: {error}"),
            Err(Error::Broken(reason)) => assert!(reason.contains("no_such_setting"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}
