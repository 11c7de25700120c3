//! What the workspace consists of, as cargo tells it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;

/// The members of the workspace and where it builds.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// One member.
#[derive(Debug, Default, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Dependencies as declared in its manifest, for all targets and features.
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of its integration test targets.
    pub(crate) tests: Vec<String>,
}

/// One declared dependency.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
    /// The version requirement; `*` when the manifest gives none.
    pub(crate) requirement: String,
    pub(crate) default_features: bool,
}

/// In which table of the manifest a dependency stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

/// The folder of the workspace: the one above xtask's own, as cargo tells at run time. Not as it was when xtask
/// was compiled: a copy or a second checkout that shares a target directory shares the program too, and would
/// silently check the other tree.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        // Started without cargo, the folder one stands in is the only hint there is.
        own.as_deref().and_then(Path::parent).unwrap_or(Path::new(".")).to_owned()
    })
}

impl Workspace {
    pub(crate) fn load() -> Result<Workspace> {
        let mut command = process::cargo();
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        let text = process::capture(&mut command).context("cargo metadata")?;
        Workspace::from_metadata(&text)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.packages.iter().any(|package| package.name == name)
    }

    pub(crate) fn from_metadata(text: &str) -> Result<Workspace> {
        let metadata: Value = serde_json::from_str(text).context("cargo metadata printed no JSON")?;
        let packages = list(&metadata, "packages")?.iter().map(package).collect::<Result<Vec<_>>>()?;
        ensure!(!packages.is_empty(), "cargo metadata lists no package");
        Ok(Workspace { packages, target_directory: string(&metadata, "target_directory")?.into() })
    }
}

fn package(value: &Value) -> Result<Package> {
    let name = string(value, "name")?;
    let dependencies = list(value, "dependencies")?.iter().map(dependency).collect::<Result<Vec<_>>>();
    let mut tests = Vec::new();
    for target in list(value, "targets")? {
        if list(target, "kind")?.iter().any(|kind| kind == "test") {
            tests.push(string(target, "name")?);
        }
    }
    Ok(Package { dependencies: dependencies.with_context(|| name.clone())?, tests, name })
}

fn dependency(value: &Value) -> Result<Dependency> {
    let kind = match value.get("kind").and_then(Value::as_str) {
        None => Kind::Normal,
        Some("build") => Kind::Build,
        Some("dev") => Kind::Dev,
        Some(other) => anyhow::bail!("dependency kind `{other}` is not known"),
    };
    Ok(Dependency {
        name: string(value, "name")?,
        kind,
        optional: boolean(value, "optional")?,
        requirement: string(value, "req")?,
        default_features: boolean(value, "uses_default_features")?,
    })
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value.get(field).and_then(Value::as_array).with_context(|| format!("metadata has no list `{field}`"))
}

fn string(value: &Value, field: &str) -> Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    Ok(text.with_context(|| format!("metadata has no text `{field}`"))?.to_owned())
}

fn boolean(value: &Value, field: &str) -> Result<bool> {
    value.get(field).and_then(Value::as_bool).with_context(|| format!("metadata has no flag `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_dependencies_and_test_targets_are_read() {
        let text = r#"{"target_directory": "/t", "packages": [{"name": "a",
            "dependencies": [
              {"name": "b", "kind": null, "optional": true, "req": "^1", "uses_default_features": true},
              {"name": "c", "kind": "dev", "optional": false, "req": "*", "uses_default_features": false}],
            "targets": [{"name": "a", "kind": ["lib"]}, {"name": "loom", "kind": ["test"]}]}]}"#;
        let workspace = Workspace::from_metadata(text).unwrap();
        let package = &workspace.packages[0];
        assert!(workspace.has("a"));
        assert_eq!(package.tests, ["loom"]);
        assert_eq!(package.dependencies[0].kind, Kind::Normal);
        assert!(package.dependencies[0].optional);
        assert_eq!(package.dependencies[1].kind, Kind::Dev);
        assert_eq!(package.dependencies[1].requirement, "*");
    }

    #[test]
    fn metadata_of_another_shape_is_an_error_and_not_an_empty_workspace() {
        for text in
            ["", "{}", r#"{"packages": []}"#, r#"{"packages": [{"name": "a"}], "target_directory": "/t"}"#]
        {
            assert!(Workspace::from_metadata(text).is_err(), "{text}");
        }
    }
}
