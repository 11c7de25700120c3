//! Where server programs are.

use std::path::{Path, PathBuf};

/// The program's file: on `PATH`, or in one of the versioned folders of PostgreSQL's server programs, which Debian keeps
/// off `PATH`; the newest version first.
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    folders().into_iter().map(|folder| folder.join(&name)).find(|path| is_program(path))
}

fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions = versions(Path::new("/usr/lib/postgresql"));
    versions.sort();
    folders.extend(versions.into_iter().rev().map(|(_, folder)| folder.join("bin")));
    folders
}

fn versions(root: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let numbered = |path: PathBuf| Some((path.file_name()?.to_str()?.parse().ok()?, path));
    entries.flatten().filter_map(|entry| numbered(entry.path())).collect()
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_program_is_found_only_where_it_can_be_run() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-anywhere"), None);
        // A folder and a plain file are no programs.
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!is_program(own));
        assert!(!is_program(&own.join("Cargo.toml")));
    }
}
