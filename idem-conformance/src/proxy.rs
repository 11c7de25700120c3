//! A proxy in this process that cuts, silences and slows down the connections through it, at a chosen byte.
//!
//! A store is opened [`via`](crate::Site::via) its address. [`arm`](Proxy::arm) sets one fault and starts counting: bytes
//! are counted from there over all connections, each direction on its own. A fault that never comes to its byte has not
//! [fired](Proxy::fired), and whoever relies on it must ask.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Requests, Self::Replies];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "request",
            Self::Replies => "reply",
        })
    }
}

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection ends, both ways, when `after` bytes went in this direction. Once: connections made later pass.
    Cut {
        /// In which direction bytes are counted.
        direction: Direction,
        /// How many of them still arrive.
        after: u64,
    },
    /// Nothing arrives any more in this direction after `after` bytes, on any connection, and nobody is told; until
    /// [`clear`](Proxy::clear).
    Silence {
        /// In which direction bytes are counted and lost.
        direction: Direction,
        /// How many of them still arrive.
        after: u64,
    },
    /// Everything arrives so much later, in both directions, until [`clear`](Proxy::clear).
    Delay {
        /// For how long each piece is held back.
        by: Duration,
    },
}

/// Bytes that went through since the last [`arm`](Proxy::arm) or [`clear`](Proxy::clear), lost ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// From the client to the server.
    pub requests: u64,
    /// From the server to the client.
    pub replies: u64,
}

impl Traffic {
    /// The bytes of one direction.
    #[must_use]
    pub const fn of(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Requests => self.requests,
            Direction::Replies => self.replies,
        }
    }
}

/// A proxy that listens on a port of the loopback interface until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    /// Counts the clearings: a connection that lost bytes ends with the next one, since what follows would not fit.
    clearings: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    fired: u64,
    traffic: Traffic,
}

/// What is to be done with bytes that arrived.
struct Judged {
    /// How many of them go on.
    pass: usize,
    hold_back: Option<Duration>,
    then: Then,
}

#[derive(PartialEq, Eq)]
enum Then {
    Continue,
    Cut,
    Lose,
}

impl Proxy {
    /// Starts one before `target`. Connections to it go there.
    ///
    /// # Errors
    ///
    /// When the system gives no port.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { target, state: Mutex::default(), clearings: watch::Sender::new(0) });
        let listening = tokio::spawn(listen(listener, shared.clone())).abort_handle();
        Ok(Self { address, shared, listening })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets a fault instead of the one before, and counts from zero.
    pub fn arm(&self, fault: Fault) {
        *self.shared.state() = State { fault: Some(fault), ..State::default() };
    }

    /// Ends the fault, and counts from zero. Connections on which bytes were lost end.
    pub fn clear(&self) {
        *self.shared.state() = State::default();
        self.shared.clearings.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// How often the fault that is set met bytes.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.state().fired
    }

    /// What went through since the counting began.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.state().traffic
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `length` bytes that arrived, and says what is to be done with them.
    fn judge(&self, direction: Direction, length: usize) -> Judged {
        let mut state = self.state();
        let before = state.traffic.of(direction);
        let after = before.saturating_add(length as u64);
        match direction {
            Direction::Requests => state.traffic.requests = after,
            Direction::Replies => state.traffic.replies = after,
        }
        let mut judged = Judged { pass: length, hold_back: None, then: Then::Continue };
        let limit = match state.fault {
            Some(Fault::Cut { direction: of, after }) if of == direction => (after, Then::Cut),
            Some(Fault::Silence { direction: of, after }) if of == direction => (after, Then::Lose),
            Some(Fault::Delay { by }) => {
                state.fired = state.fired.saturating_add(1);
                judged.hold_back = Some(by);
                return judged;
            }
            _ => return judged,
        };
        if after <= limit.0 {
            return judged;
        }
        judged.pass = usize::try_from(limit.0.saturating_sub(before)).unwrap_or(length).min(length);
        judged.then = limit.1;
        state.fired = state.fired.saturating_add(1);
        if judged.then == Then::Cut {
            state.fault = None;
        }
        judged
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((client, _)) = listener.accept().await {
            connections.spawn(carry(client, shared.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Carries one connection until either side ends it or a fault does. Protocols that close one direction and use the
/// other are not known here.
async fn carry(mut client: TcpStream, shared: Arc<Shared>) {
    let Ok(mut server) = TcpStream::connect(shared.target).await else { return };
    // Pieces are to arrive when they were sent, or a fault would also change how they are cut.
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::select! {
        _ = pump(from_client, to_server, Direction::Requests, &shared) => {}
        _ = pump(from_server, to_client, Direction::Replies, &shared) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    shared: &Shared,
) -> io::Result<()> {
    let mut clearings = shared.clearings.subscribe();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        // Clearings until now are over; one that comes after the next line ends a connection that loses bytes by it.
        clearings.mark_unchanged();
        let judged = shared.judge(direction, length);
        if let Some(by) = judged.hold_back {
            SystemClock.sleep_until(SystemClock.elapsed().saturating_add(by)).await;
        }
        to.write_all(buffer.get(..judged.pass).unwrap_or_default()).await?;
        match judged.then {
            Then::Continue => {}
            Then::Cut => return Ok(()),
            Then::Lose => {
                // The side that waits is not to learn that the other one gave up.
                let cleared = clearings.changed();
                tokio::select! {
                    _ = cleared => return Ok(()),
                    ended = lose(&mut from, &mut buffer, direction, shared) => return ended,
                }
            }
        }
    }
}

/// Reads what follows, for nobody, until that side ends the connection.
async fn lose(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
    direction: Direction,
    shared: &Shared,
) -> io::Result<()> {
    loop {
        let length = from.read(buffer).await?;
        if length == 0 {
            return Ok(());
        }
        shared.judge(direction, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RUNTIME;

    const ASKED: &[u8] = b"question";

    /// A server that answers every connection with what it sent, twice.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut buffer = [0; 64];
                    while let Ok(length) = stream.read(&mut buffer).await {
                        if length == 0 || stream.write_all(&buffer[..length].repeat(2)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    /// Sends the question over a new connection; gives what comes back until the end of the connection or the answer's.
    async fn ask(proxy: &Proxy) -> Vec<u8> {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        let mut answer = Vec::new();
        if stream.write_all(ASKED).await.is_ok() {
            let mut buffer = [0; 64];
            while answer.len() < ASKED.len() * 2 {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(length) => answer.extend_from_slice(&buffer[..length]),
                }
            }
        }
        answer
    }

    #[test]
    fn a_cut_lets_exactly_so_many_bytes_through_and_happens_once() {
        RUNTIME.block_on(async {
            let proxy = Proxy::start(echo().await).await.unwrap();
            let whole = ask(&proxy).await;
            assert_eq!(proxy.traffic(), Traffic { requests: 8, replies: 16 });
            for after in 0..16 {
                proxy.arm(Fault::Cut { direction: Direction::Replies, after });
                assert_eq!(ask(&proxy).await, whole[..usize::try_from(after).unwrap()]);
                assert_eq!(proxy.fired(), 1);
                assert_eq!(ask(&proxy).await, whole);
                assert_eq!(proxy.fired(), 1);
            }
            for after in 0..8 {
                proxy.arm(Fault::Cut { direction: Direction::Requests, after });
                assert!(ask(&proxy).await.len() <= usize::try_from(after).unwrap() * 2);
                assert_eq!(proxy.fired(), 1);
            }
            proxy.arm(Fault::Cut { direction: Direction::Replies, after: 16 });
            assert_eq!(ask(&proxy).await, whole);
            assert_eq!(proxy.fired(), 0, "a cut behind the last byte is none");
        });
    }

    #[test]
    fn silence_lasts_until_it_is_cleared_and_its_connections_end_then() {
        RUNTIME.block_on(async {
            let proxy = Proxy::start(echo().await).await.unwrap();
            for direction in Direction::ALL {
                proxy.arm(Fault::Silence { direction, after: 3 });
                let mut asking = Box::pin(ask(&proxy));
                // Nothing tells that an answer will never come; that it lost what it should have is what can be seen.
                while proxy.fired() == 0 {
                    tokio::select! {
                        answer = &mut asking => panic!("{answer:?}"),
                        () = tokio::task::yield_now() => {}
                    }
                }
                proxy.clear();
                assert!(asking.await.len() < 16);
                assert_eq!(ask(&proxy).await.len(), 16);
            }
        });
    }

    #[test]
    fn a_delay_changes_nothing_but_the_time() {
        RUNTIME.block_on(async {
            let proxy = Proxy::start(echo().await).await.unwrap();
            let by = Duration::from_millis(20);
            proxy.arm(Fault::Delay { by });
            let started = SystemClock.elapsed();
            assert_eq!(ask(&proxy).await.len(), 16);
            assert!(SystemClock.elapsed() - started >= by * 2);
            assert!(proxy.fired() >= 2);
        });
    }
}
