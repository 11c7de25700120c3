//! As much of Markdown as the documents use.

use std::path::PathBuf;

/// A document in its parts.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) path: PathBuf,
    /// Code within a line.
    pub(super) spans: Vec<String>,
    /// Where its links lead, those to other sites left out.
    pub(super) links: Vec<String>,
    /// Command lines that begin with `cargo`, in spans and in blocks.
    pub(super) commands: Vec<String>,
    /// Blocks of Rust.
    pub(super) rust: Vec<String>,
    /// Its headings, as links name them.
    pub(super) anchors: Vec<String>,
}

impl Document {
    pub(super) fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        Self { path, ..Self::of(&text) }
    }

    pub(super) fn of(text: &str) -> Self {
        let mut document = Self::default();
        let mut fence: Option<String> = None;
        // Code spans and links may go on in the next line, so a paragraph is read as one.
        let mut paragraph = String::new();
        // A command that goes on in the next line is one.
        for line in text.replace("\\\n", " ").lines() {
            let marker = line.trim_start().strip_prefix("```");
            if marker.is_some() || fence.is_some() || line.trim().is_empty() {
                document.prose(&std::mem::take(&mut paragraph));
            }
            match (marker, &fence) {
                (Some(info), None) => {
                    if is_rust(info) {
                        document.rust.push(String::new());
                    }
                    fence = Some(info.to_owned());
                }
                (Some(_), Some(_)) => fence = None,
                (None, Some(info)) if is_rust(info) => {
                    if let Some(block) = document.rust.last_mut() {
                        block.push_str(line);
                        block.push('\n');
                    }
                }
                (None, Some(_)) => document.command(line.trim_start_matches(['$', ' '])),
                (None, None) if line.trim().is_empty() => {}
                // After an empty line; elsewhere it is a line of the paragraph.
                (None, None) if paragraph.is_empty() && line.starts_with("    ") => {
                    document.command(line.trim_start());
                }
                (None, None) => {
                    if let Some(heading) = line.strip_prefix('#') {
                        document.anchors.push(anchor(heading.trim_start_matches('#').trim()));
                    }
                    paragraph.push_str(line.trim());
                    paragraph.push(' ');
                }
            }
        }
        document.prose(&paragraph);
        document
    }

    fn command(&mut self, line: &str) {
        if line.starts_with("cargo ") {
            self.commands.push(line.split(" # ").next().unwrap_or(line).trim_end().to_owned());
        }
    }

    fn prose(&mut self, paragraph: &str) {
        for span in paragraph.split('`').skip(1).step_by(2) {
            self.command(span);
            self.spans.push(span.to_owned());
        }
        for link in paragraph.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") {
                self.links.push(link.to_owned());
            }
        }
    }
}

/// Whether rustdoc takes a block with this information for Rust.
fn is_rust(info: &str) -> bool {
    let known = ["rust", "rs", "no_run", "should_panic", "ignore", "compile_fail"];
    info.is_empty() || info.split(',').any(|word| known.contains(&word))
}

/// How a link names a heading: by its words, without where they lead.
fn anchor(heading: &str) -> String {
    let mut words = String::new();
    for part in heading.split("](") {
        let text = if words.is_empty() { part } else { part.split_once(')').map_or("", |(_, text)| text) };
        words.push_str(text);
    }
    let words = words.to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn a_document_is_taken_apart() {
    let text = "# [A](a.rs) title: `x`\n\nSee `src/a.rs`, [b](b.md#c) and [d](https://d) or `cargo test\n  -p a`.\n\n- a\n\n    cargo doc \\\n      --open # all\n\n\
        ```rust,no_run\n# hidden\nlet a = `1`;\n```\n\n```sh\n$ cargo run\n```\n";
    let document = Document::of(text);
    assert_eq!(document.anchors, ["a-title-x"]);
    assert_eq!(document.spans, ["x", "src/a.rs", "cargo test -p a"]);
    assert_eq!(document.links, ["a.rs", "b.md#c"]);
    assert_eq!(document.commands, ["cargo test -p a", "cargo doc        --open", "cargo run"]);
    assert_eq!(document.rust, ["# hidden\nlet a = `1`;\n"]);
}
