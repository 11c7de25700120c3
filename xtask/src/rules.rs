//! Which crate of the workspace may depend on which: pure functions over what the manifests declare.

use crate::workspace::{Dependency, Kind, Package};

/// The contract and everything that is the same for all stores.
pub(crate) const CORE: &str = "idem-core";
/// The suite: a library over the core alone, and a binary that composes all stores.
pub(crate) const SUITE: &str = "idem-conformance";

/// Members that put the others together. Every other member is judged as a library, so a new backend is
/// covered from its first day, and a new composer has to be named here on purpose.
const COMPOSERS: &[&str] = &["idem-cli", "idem-bench", "idem-examples", "xtask"];

/// Crates that talk to one store. The core and the suite's library know none of them.
pub(crate) const DRIVERS: &[&str] = &[
    "rusqlite",
    "libsqlite3-sys",
    "sqlx",
    "sqlx-core",
    "sqlx-postgres",
    "tokio-postgres",
    "redis",
    "aws-sdk-dynamodb",
];

/// What the suite's binary needs beside its library, whose users must not have to build it. The parser of its arguments
/// is not among them: the library has the same one through libtest-mimic.
pub(crate) const RUNNER: &[&str] = &["quick-junit", "quick-xml", "maud"];

/// Every broken rule, one sentence each.
pub(crate) fn violations(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(of_package).collect()
}

fn of_package(package: &Package) -> Vec<String> {
    let members = package.dependencies.iter().filter(|dependency| is_ours(&dependency.name));
    members.filter_map(|dependency| of_dependency(&package.name, dependency)).collect()
}

fn of_dependency(package: &str, on: &Dependency) -> Option<String> {
    if on.kind == Kind::Dev {
        return of_dev_dependency(package, on);
    }
    let allowed = if package == CORE {
        false
    } else if COMPOSERS.contains(&package) {
        true
    } else {
        // The suite's binary reaches the stores through optional dependencies; its library must not.
        on.name == CORE || (package == SUITE && on.optional)
    };
    let sentence = if package == CORE {
        format!("{CORE} depends on {}; it may depend on no other member", on.name)
    } else {
        format!("{package} depends on {}; a library of this workspace may depend only on {CORE}", on.name)
    };
    (!allowed).then_some(sentence)
}

fn of_dev_dependency(package: &str, on: &Dependency) -> Option<String> {
    if package == CORE {
        // A cycle, even one through tests, would make the core's verdict depend on what is built on it.
        return Some(format!("{CORE} depends on {} in its tests; it may depend on no other member", on.name));
    }
    if on.name != SUITE {
        return None;
    }
    if on.requirement != "*" {
        // With a version the backend could not be published before the suite, nor the suite before it.
        return Some(format!("{package} gives {SUITE} a version in its dev-dependencies; a path is enough"));
    }
    if on.default_features {
        return Some(format!(
            "{package} needs `default-features = false` for {SUITE}: the default is its binary"
        ));
    }
    None
}

/// Whether a name is a member's. Stated by prefix, so that the rules also see members that were just added.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with("idem-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[Dependency]) -> Package {
        Package { name: name.to_owned(), dependencies: dependencies.to_vec(), tests: Vec::new() }
    }

    fn normal(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            kind: Kind::Normal,
            optional: false,
            requirement: "^0.1".to_owned(),
            default_features: true,
        }
    }

    fn dev_suite() -> Dependency {
        Dependency { kind: Kind::Dev, requirement: "*".to_owned(), default_features: false, ..normal(SUITE) }
    }

    fn verdict(package_: Package) -> Vec<String> {
        violations(&[package_])
    }

    #[test]
    fn the_intended_shape_breaks_nothing() {
        let optional = Dependency { optional: true, ..normal("idem-sqlite") };
        let packages = [
            package(CORE, &[normal("serde")]),
            package("idem-sqlite", &[normal(CORE), normal("rusqlite"), dev_suite()]),
            package(SUITE, &[normal(CORE), optional]),
            package("idem-cli", &[normal(CORE), normal("idem-sqlite")]),
        ];
        assert_eq!(violations(&packages), Vec::<String>::new());
    }

    #[test]
    fn the_core_depends_on_no_member_not_even_in_tests() {
        assert_eq!(verdict(package(CORE, &[normal("idem-sqlite")])).len(), 1);
        assert_eq!(verdict(package(CORE, &[dev_suite()])).len(), 1);
    }

    #[test]
    fn a_backend_depends_on_the_core_alone_whatever_it_is_called() {
        for name in ["idem-sqlite", "idem-added-tomorrow"] {
            assert_eq!(verdict(package(name, &[normal(CORE), normal("idem-provision")])).len(), 1);
            assert_eq!(verdict(package(name, &[normal(SUITE)])).len(), 1);
        }
    }

    #[test]
    fn the_suite_reaches_stores_only_through_optional_dependencies() {
        assert_eq!(verdict(package(SUITE, &[normal("idem-sqlite")])).len(), 1);
    }

    #[test]
    fn the_suite_is_a_dev_dependency_by_path_without_its_binary() {
        let versioned = Dependency { requirement: "^0.1".to_owned(), ..dev_suite() };
        assert_eq!(verdict(package("idem-redis", &[versioned])).len(), 1);
        let with_binary = Dependency { default_features: true, ..dev_suite() };
        assert_eq!(verdict(package("idem-redis", &[with_binary])).len(), 1);
    }
}
