//! Child processes: shown before they start, without standard input, judged by their exit status.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{descendants, report, workspace};

/// How long a watched command may take. A hung test is ended and named as such, and the rest still runs.
const LIMITS: Limits = Limits { run: Duration::from_secs(30 * 60), outlived: Duration::from_secs(5) };
/// How often a silent command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Chunks of output read ahead of the terminal; past that the child waits, as it would on a pipe.
const CHUNKS_WAITING_MAX: usize = 64;

/// A cargo of the same toolchain as the one that started xtask, run from the workspace root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root());
    command
}

/// The value of a flags variable with one more flag. What the caller of xtask had set is kept, because cargo
/// takes the variable instead of its configuration, not beside it.
pub(crate) fn with_flags(variable: &str, flags: &str) -> String {
    match std::env::var(variable) {
        Ok(present) if !present.trim().is_empty() => format!("{present} {flags}"),
        _ => flags.to_owned(),
    }
}

/// Runs a command with its output going straight to ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| started(command))?;
    judge(status)
}

/// Runs a command and passes its standard output through as it comes, while `on_line` sees every line of it.
pub(crate) fn run_watched(command: &mut Command, on_line: impl FnMut(&str)) -> Result<()> {
    run_watched_within(command, LIMITS, on_line)
}

/// The two waits that a watched command gets.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// From its start to its end.
    run: Duration,
    /// From its end to the end of its output.
    outlived: Duration,
}

fn run_watched_within(command: &mut Command, limits: Limits, on_line: impl FnMut(&str)) -> Result<()> {
    announce(command);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| started(command))?;
    let output = child.stdout.take().context("the command has no standard output")?;
    let chunks = read_in_background(output);
    let mut lines = Lines { pending: Vec::new(), on_line };
    let watched = watch(&mut child, limits, &chunks, &mut lines);
    if watched.is_err() && matches!(child.try_wait(), Ok(None)) {
        descendants::end(&mut child);
    }
    // Waited for even if the watching failed: a child must not outlive the step that started it.
    let status = child.wait().context("waiting for the command")?;
    lines.finish();
    watched?;
    judge(status)
}

/// Reads until the end of the output, in a thread of its own: a read that never ends must not hold up the run.
fn read_in_background(mut output: ChildStdout) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::sync_channel(CHUNKS_WAITING_MAX);
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 8192];
        loop {
            let chunk = match output.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => Ok(buffer.get(..count).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let last = chunk.is_err();
            // Nobody receives any more once the watcher gave up.
            if sender.send(chunk).is_err() || last {
                return;
            }
        }
    });
    receiver
}

/// Copies chunks to our standard output as they arrive, not line by line: the dots of a slow test must show.
/// Ends when the output does, or a while after the child itself did. The latter is an error: a process
/// that a test started and left behind would otherwise hang the gate, or pass unseen.
fn watch(
    child: &mut Child,
    limits: Limits,
    chunks: &Receiver<std::io::Result<Vec<u8>>>,
    lines: &mut Lines<impl FnMut(&str)>,
) -> Result<()> {
    let started = report::stopwatch();
    let mut exited: Option<Instant> = None;
    loop {
        match chunks.recv_timeout(LOOK_EVERY) {
            Ok(chunk) => {
                let chunk = chunk.context("reading the output of the command")?;
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(&chunk).and_then(|()| stdout.flush()).context("writing our own output")?;
                lines.take(&chunk);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if exited.is_none() && child.try_wait().context("waiting for the command")?.is_some() {
            exited = Some(report::stopwatch());
        }
        if exited.is_some_and(|since| since.elapsed() > limits.outlived) {
            bail!("the command ended, but a process it left behind still holds its standard output");
        }
        if exited.is_none() && started.elapsed() > limits.run {
            bail!("ended after {} minutes", limits.run.as_secs() / 60);
        }
    }
}

/// Cuts a stream of bytes into lines.
struct Lines<F> {
    pending: Vec<u8>,
    on_line: F,
}

impl<F: FnMut(&str)> Lines<F> {
    fn take(&mut self, chunk: &[u8]) {
        for &byte in chunk {
            if byte == b'\n' {
                self.emit();
            } else {
                self.pending.push(byte);
            }
        }
    }

    /// An unterminated last line is a line too.
    fn finish(&mut self) {
        if !self.pending.is_empty() {
            self.emit();
        }
    }

    fn emit(&mut self) {
        (self.on_line)(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

/// Runs a command and returns its standard output; its standard error goes to ours. Says nothing by itself.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_context(|| started(command))?;
    judge(output.status)?;
    String::from_utf8(output.stdout).context("the output of the command is not UTF-8")
}

/// Whether a command can be started and succeeds; its output is dropped. For asking tools whether they exist.
pub(crate) fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether we may install packages. Asked of the system's own tool: the standard library does not know.
pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Prints the command as a person would type it.
pub(crate) fn announce(command: &Command) {
    println!("$ {}", shell_line(command));
    // Standard error of the child is not ours to order; flushing keeps the line above it.
    flush();
}

/// Makes what was printed visible now, where the output is no terminal.
pub(crate) fn flush() {
    drop(std::io::stdout().flush());
}

fn shell_line(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    // The program's folder says nothing to a reader and is wrong on the next machine.
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:*+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn started(command: &Command) -> String {
    format!("cannot start `{}`", command.get_program().to_string_lossy())
}

fn judge(status: ExitStatus) -> Result<()> {
    match status.code() {
        Some(code) => ensure!(code == 0, "exit status {code}"),
        None => bail!("ended by a signal"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_pipe_cuts_them() {
        let text = b"one\ntwo\n\n\xffthree";
        for size in 1..=text.len() {
            let mut seen = Vec::new();
            let mut lines = Lines { pending: Vec::new(), on_line: |line: &str| seen.push(line.to_owned()) };
            text.chunks(size).for_each(|chunk| lines.take(chunk));
            lines.finish();
            assert_eq!(seen, ["one", "two", "", "\u{fffd}three"], "chunks of {size}");
        }
    }

    #[test]
    fn output_is_seen_and_the_exit_status_counts() {
        let mut seen = Vec::new();
        let outcome = run_watched(Command::new("sh").args(["-c", "echo seen; exit 3"]), |line| {
            seen.push(line.to_owned());
        });
        assert_eq!(seen, ["seen"]);
        assert_eq!(outcome.unwrap_err().to_string(), "exit status 3");
    }

    #[test]
    fn a_process_left_behind_fails_the_step_instead_of_hanging_it() {
        // It ends by itself, long after the watcher must have given up.
        let mut leaking = Command::new("sh");
        leaking.args(["-c", "sleep 3 2> /dev/null & echo done"]);
        let limits = Limits { outlived: Duration::from_millis(50), ..LIMITS };
        let outcome = run_watched_within(&mut leaking, limits, |_| {});
        assert!(outcome.unwrap_err().to_string().contains("left behind"));
    }

    #[test]
    #[cfg(target_os = "linux")] // Elsewhere descendants cannot be found, and only the command itself is ended.
    fn a_command_that_hangs_is_ended_with_what_it_started() {
        // The grandchild would write the file; the outer shell waits for it and so hangs as well.
        let mark = std::env::temp_dir().join(format!("xtask-hang-{}", std::process::id()));
        let script = r#"sh -c 'sleep 2; echo late > "$1"' sh "$1"; true"#;
        let mut hanging = Command::new("sh");
        hanging.args(["-c", script, "sh"]).arg(&mark);
        let limits = Limits { run: Duration::from_millis(500), ..LIMITS };
        let outcome = run_watched_within(&mut hanging, limits, |_| {});
        assert_eq!(outcome.unwrap_err().to_string(), "ended after 0 minutes");
        // Longer than the grandchild would have taken.
        assert!(!answers(Command::new("sh").args(["-c", r#"sleep 2.5; test -e "$1""#, "sh"]).arg(&mark)));
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["doc", "it's"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shell_line(&command), r"RUSTDOCFLAGS='-D warnings' cargo doc 'it'\''s'");
    }
}
